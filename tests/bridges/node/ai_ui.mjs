// A chat as a front end of AI SDK 5, 6 or 7 has it: the package, and what to do.
// Gives the messages at the end, what went wrong, and what passed by.
class State {
  status = "ready";
  error = undefined;
  messages;
  constructor(messages) { this.messages = messages; }
  pushMessage = (message) => { this.messages = [...this.messages, message]; this.changed(); };
  popMessage = () => { this.messages = this.messages.slice(0, -1); };
  replaceMessage = (index, message) => {
    this.messages = [...this.messages.slice(0, index), message, ...this.messages.slice(index + 1)];
    this.changed();
  };
  snapshot = (thing) => structuredClone(thing);
  changed() {}
}

export default async function run(name, plan) {
  const sdk = await import(name === "react" ? "ai7" : name);
  const react = name === "react" ? await import("@ai-sdk/react") : undefined;
  const seen = { errors: [], data: [], finishes: [], calls: [], requests: [] };
  let chat;
  const state = new State(plan.messages ?? []);
  const options = {
    id: plan.id,
    messages: plan.messages ?? [],
    transport: new sdk.DefaultChatTransport({
      api: plan.api,
      headers: plan.headers,
      body: plan.body,
      ...(plan.onlyLast && {
        prepareSendMessagesRequest: ({ id, messages, body }) => ({ body: { ...body, id, message: messages.at(-1) } }),
      }),
      fetch: async (url, init) => {
        if (init.body) seen.requests.push(JSON.parse(init.body));
        return fetch(url, init);
      },
    }),
    sendAutomaticallyWhen: sdk.lastAssistantMessageIsCompleteWithToolCalls,
    onError: (error) => seen.errors.push(error.message),
    onData: (part) => seen.data.push(part),
    onFinish: ({ finishReason, isAbort, isError, isDisconnect }) =>
      seen.finishes.push({ finishReason, isAbort, isError, isDisconnect }),
    onToolCall: ({ toolCall }) => {
      seen.calls.push(toolCall);
      const output = plan.outputs?.[toolCall.toolName];
      if (output !== undefined) chat.addToolOutput({ tool: toolCall.toolName, toolCallId: toolCall.toolCallId, output });
    },
  };

  if (react) {
    chat = new react.Chat(options);
  } else {
    class Chat extends sdk.AbstractChat {}
    chat = new Chat({ ...options, state });
  }

  const textOf = (message) => message?.parts.filter((p) => p.type === "text").map((p) => p.text).join("") ?? "";
  if (plan.stopAt) {
    const look = () => { if (textOf(chat.lastMessage).includes(plan.stopAt)) chat.stop(); };
    if (react) chat["~registerMessagesCallback"](look);
    else state.changed = look;
  }
  for (const step of plan.steps) {
    if (step.regenerate) await chat.regenerate();
    else if (step.resume) await chat.resumeStream();
    else await chat.sendMessage(step);
  }
  return { ...seen, status: chat.status, messages: chat.messages };
}

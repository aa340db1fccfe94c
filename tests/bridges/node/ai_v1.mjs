// A chat as a front end of AI SDK 4 has it. Gives the messages at the end, the parts that came, and what went wrong.
import { processDataStream } from "ai4";
import { callChatApi, isAssistantMessageWithCompletedToolCalls } from "@ai-sdk/ui-utils";

export default async function run(plan) {
  const seen = { errors: [], parts: [], finishes: [], calls: [], data: [] };
  let messages = plan.messages ?? [];
  let controller;

  // What `useChat` asks for goes to two readers: the one inside `callChatApi`, and the bare `processDataStream`.
  async function watched(url, init) {
    const response = await fetch(url, init);
    if (!response.ok || !response.body) return response;
    const [one, other] = response.body.tee();
    const note = (name) => (value) => { seen.parts.push([name, value]); };
    const handlers = {};
    for (const name of ["Text", "Reasoning", "ReasoningSignature", "RedactedReasoning", "Source", "File", "Data", "Error",
      "ToolCallStreamingStart", "ToolCallDelta", "ToolCall", "ToolResult", "MessageAnnotations", "FinishMessage",
      "FinishStep", "StartStep"]) handlers[`on${name}Part`] = note(name);
    readers.push(processDataStream({ stream: other, ...handlers }).catch(() => {}));
    return new Response(one, { status: response.status, headers: response.headers });
  }
  const readers = [];

  async function ask(requestType = "generate") {
    controller = new AbortController();
    const before = messages;
    await callChatApi({
      api: plan.api,
      body: { id: plan.id, messages: before, ...plan.body },
      headers: plan.headers,
      abortController: () => controller,
      fetch: watched,
      requestType,
      lastMessage: before.at(-1),
      restoreMessagesOnFailure: () => { messages = before; },
      onUpdate({ message, data, replaceLastMessage }) {
        messages = [...(replaceLastMessage ? before.slice(0, -1) : before), message];
        seen.data = data;
        if (plan.stopAt && message.content.includes(plan.stopAt)) controller.abort();
      },
      onFinish: (message, options) => { seen.finishes.push(options); },
      onToolCall({ toolCall }) {
        seen.calls.push(toolCall);
        return plan.outputs?.[toolCall.toolName];
      },
      generateId: () => "client-id",
    });
  }

  for (const step of plan.steps) {
    try {
      if (step.resume) await ask("resume");
      else {
        messages = [...messages, { id: `u${messages.length}`, role: "user", content: step.text,
          parts: [{ type: "text", text: step.text }], ...step.extra }];
        await ask();
        if (isAssistantMessageWithCompletedToolCalls(messages.at(-1))) await ask();
      }
    } catch (error) {
      seen.errors.push(error.name === "AbortError" ? "AbortError" : error.message);
    }
  }
  await Promise.all(readers);
  return { ...seen, messages };
}

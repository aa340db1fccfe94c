// One chat of Hashbrown's own client with the gateway; gives what the client made of it, and what it sent.
import { createHttpTransport, decodeFrames, fryHashbrown, s } from '@hashbrownai/core';

const DEADLINE = 20_000;

export default async function run(url, plan) {
  const sent = [];
  const frames = [];
  let open = 0;

  // Notes what is sent and which frames come, and hands both on untouched.
  async function watchedFetch(address, init) {
    sent.push(JSON.parse(init.body));
    open += 1;
    let answer;
    try {
      answer = await fetch(address, init);
    } catch (error) {
      open -= 1;
      throw error;
    }
    if (!answer.ok) {
      open -= 1;
      return answer;
    }
    const [mine, theirs] = answer.body.tee();
    const types = [];
    frames.push(types);
    (async () => {
      try {
        for await (const frame of decodeFrames(mine, { signal: init.signal })) types.push(frame.type);
      } catch (error) {
        types.push(`(${error.name})`);
      } finally {
        open -= 1;
      }
    })();
    return new Response(theirs, { status: answer.status, headers: answer.headers });
  }

  async function until(condition, what) {
    const ends = Date.now() + DEADLINE;
    while (!condition()) {
      if (Date.now() > ends) throw new Error(`not in time: ${what}; ${JSON.stringify(chat.messages())}`);
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
  }

  const kinds = { string: s.string('a text'), number: s.number('a number') };
  const object = (name, fields) =>
    s.object(name, Object.fromEntries(Object.entries(fields).map(([key, kind]) => [key, kinds[kind]])));

  const chat = fryHashbrown({
    model: plan.model ?? 'demo',
    system: plan.system ?? '',
    messages: plan.messages,
    threadId: plan.threadId,
    retries: plan.retries,
    debounce: 0,
    emulateStructuredOutput: plan.emulate,
    responseSchema: plan.schema && object('the answer', plan.schema),
    transport: createHttpTransport({ baseUrl: url, fetchImpl: watchedFetch }),
    tools: (plan.tools ?? []).map((tool) => ({
      name: tool.name,
      description: tool.name,
      schema: object('the arguments', tool.fields),
      handler: async (args) => {
        if (tool.throws) throw new Error(tool.throws);
        return { ...tool.result, args };
      },
    })),
  });

  const stop = chat.sizzle();
  const isOver = () => {
    const last = chat.messages().at(-1);
    const waits = last?.toolCalls?.some((call) => call.status === 'pending');
    return open === 0 && !chat.isLoading() && !chat.isSavingThread() && !waits;
  };

  if (plan.messages) await until(() => sent.length && open === 0, 'the answer to what was said before');
  else if (plan.threadId) await until(() => sent.length && isOver(), 'the thread');
  for (const content of plan.says ?? []) {
    const before = sent.length;
    chat.sendMessage({ role: 'user', content });
    if (plan.stopAt) {
      await until(() => String(chat.lastAssistantMessage()?.content ?? '').includes(plan.stopAt), plan.stopAt);
      chat.stop();
      await until(() => open === 0, 'the end of the request');
    } else {
      await until(() => sent.length > before && isOver(), content);
    }
  }
  stop();
  return {
    messages: chat.messages(),
    error: chat.error()?.message ?? null,
    threadId: chat.threadId() ?? null,
    threadLoadError: chat.threadLoadError()?.error ?? null,
    exhausted: chat.exhaustedRetries(),
    sent,
    frames,
  };
}

// Chat completions and embeddings with the openai package: what it made of each answer.
import OpenAI from "openai";

const TOOL = { type: "function", function: { name: "get_weather", parameters: { type: "object", properties: {} } } };

export default async function run({ base, model, request, stream, result, input }) {
  const client = new OpenAI({ baseURL: base, apiKey: "sk-any", maxRetries: 0 });
  if (input) return (await client.embeddings.create({ model, input })).data.map((one) => [...one.embedding]);
  const asked = { model, tools: [TOOL], ...request };
  const first = await answer(client, asked, stream);
  if (first.error || !result) return first;
  // A loop as programs write it: the message goes back as it came.
  const outputs = first.message.tool_calls.map((call) => ({ role: "tool", tool_call_id: call.id, content: result }));
  const messages = [...asked.messages, first.message, ...outputs];
  return { first, second: await answer(client, { ...asked, messages }, stream) };
}

async function answer(client, request, stream) {
  try {
    if (!stream) {
      const whole = await client.chat.completions.create(request);
      return told(whole);
    }
    const chunks = client.chat.completions.stream({ ...request, stream_options: { include_usage: true } });
    let reasoning = "";
    chunks.on("chunk", (chunk) => {
      reasoning += chunk.choices[0]?.delta?.reasoning_content ?? "";
    });
    return { ...told(await chunks.finalChatCompletion()), reasoning };
  } catch (error) {
    return { error: { name: error.constructor.name, status: error.status, type: error.type, code: error.code, param: error.param } };
  }
}

function told(whole) {
  const [choice] = whole.choices;
  return { id: whole.id, message: choice.message, finish: choice.finish_reason, usage: whole.usage };
}

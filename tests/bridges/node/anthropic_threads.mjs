// The tool runner and a thread of Anthropic's own SDK, each over several requests to /v1/messages.
import Anthropic from "@anthropic-ai/sdk";
import { betaTool } from "@anthropic-ai/sdk/helpers/beta/json-schema";

export default async function run({ base, model, stream }) {
  const client = new Anthropic({ baseURL: base, apiKey: "sk-any", maxRetries: 0 });
  const asked = { model, max_tokens: 4096, system: "Be brief." };
  const weather = betaTool({
    name: "get_weather",
    description: "The weather of a city.",
    inputSchema: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
    run: ({ city }) => `18 °C in ${city}`,
  });
  const messages = [{ role: "user", content: "Weather in Paris?" }];
  const runner = client.beta.messages.toolRunner({ ...asked, messages, tools: [weather], stream });
  let last;
  for await (const turn of runner) last = stream ? await turn.finalMessage() : turn;
  const thread = client.beta.messages.thread(asked);
  const first = await thread.send({ role: "user", content: "I am Ann." });
  const second = await thread.send({ role: "user", content: "Who am I?" });
  return { last, first, second };
}

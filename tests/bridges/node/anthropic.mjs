// One answer as Anthropic's own SDK reads it from /v1/messages: the message, or the error that it threw.
import Anthropic from "@anthropic-ai/sdk";

export default async function run({ base, stream, request, count }) {
  const client = new Anthropic({ baseURL: base, apiKey: "sk-any", maxRetries: 0 });
  try {
    if (count) return { counted: await client.messages.countTokens(request) };
    if (!stream) return { message: await client.messages.create(request) };
    const events = [];
    const told = client.messages.stream(request);
    told.on("streamEvent", (event) => events.push(event.type));
    return { message: await told.finalMessage(), events };
  } catch (error) {
    return { error: { name: error.constructor.name, status: error.status, body: error.error } };
  }
}

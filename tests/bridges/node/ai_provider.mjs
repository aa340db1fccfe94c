// One answer as a provider of the AI SDK reads it from /v1/responses: its parts, its end, and the dialect it came in.
import { generateText, streamText } from "ai6";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenResponses } from "@ai-sdk/open-responses";

const PROVIDERS = {
  "open-responses": (base) => createOpenResponses({ name: "antiphon", url: `${base}/responses`, apiKey: "sk-any" }),
  openai: (base) => createOpenAI({ baseURL: base, apiKey: "sk-any" }).responses,
};

export default async function run({ provider, base, model, prompt, stream, summary }) {
  const request = { model: PROVIDERS[provider](base)(model), prompt, maxRetries: 0 };
  if (summary) request.providerOptions = { openai: { reasoningSummary: summary, forceReasoning: true } };
  const told = { text: "", reasoning: "", errors: [] };
  if (!stream) {
    const answer = await generateText(request);
    told.text = answer.text;
    told.reasoning = answer.reasoningText;
    told.dialect = answer.response.headers["x-antiphon-dialect"];
    return told;
  }
  const answer = streamText({ ...request, onError: () => {} });
  for await (const part of answer.fullStream) {
    if (part.type === "text-delta") told.text += part.text;
    if (part.type === "reasoning-delta") told.reasoning += part.text;
    if (part.type === "error") told.errors.push(JSON.stringify(part.error));
    if (part.type === "finish-step") told.dialect = part.response.headers["x-antiphon-dialect"];
    if (part.type === "finish") told.finish = part.finishReason;
  }
  return told;
}

/** The models that the gateway lists, and what its catalogue knows of them. Unknown stays unknown. */

import { call } from "./api";
import { Observable } from "./observable";
import type { ModelObject } from "./protocol";

export interface Model {
  id: string;
  owner: string;
  window: number | null;
  inputs: string[] | null;
  efforts: string[] | null;
  /** Types of the tools that the gateway runs for it; a request names them, and nothing else is needed. */
  tools: string[];
  /** Money for a million tokens. */
  price: { input: number; output: number; cached: number | null; currency: string; below: number } | null;
}

export const models = new Observable<{ models: Model[]; isLoaded: boolean }>({ models: [], isLoaded: false });

export async function loadModels(): Promise<void> {
  const found = await call<{ data: ModelObject[] }>("GET", "/v1/models");
  models.set({ models: found.data.map(readModel), isLoaded: true });
}

/** The one that answers: the gateway's first where none was chosen, or none of that name is left. */
export function modelOf(known: readonly Model[], chosen: string | null): Model | undefined {
  return known.find((one) => one.id === chosen) ?? known[0];
}

export function readModel(model: ModelObject): Model {
  const known = record(model["antiphon:model"]) ?? {};
  return {
    id: model.id,
    owner: model.owned_by,
    window: number(known.context_window),
    inputs: strings(known.input_modalities),
    efforts: strings(known.reasoning_levels),
    tools: strings(model["antiphon:tools"]) ?? [],
    price: price(record(known.prices)),
  };
}

function price(known: Record<string, unknown> | null): Model["price"] {
  const input = number(known?.input);
  const output = number(known?.output);
  if (input === null || output === null) return null;
  // Long prompts may have other rates; above the first step, the cost is not told rather than told wrong.
  const steps = Array.isArray(known?.steps)
    ? known.steps.map((step) => number(record(step)?.above) ?? 0)
    : [];
  return {
    input,
    output,
    cached: number(known?.cached_input),
    currency: "USD",
    below: Math.min(...steps, Number.MAX_SAFE_INTEGER),
  };
}

/** The reasoning efforts of the model; the picker offers none if they are unknown. */
export function effortsOf(model: Model | undefined): string[] {
  return model?.efforts ?? [];
}

/** Can it take such a file? Where nothing is known, it may. */
export function takes(model: Model | undefined, mediaType: string): boolean {
  const inputs = model?.inputs;
  if (inputs === null || inputs === undefined) return true;
  const kind = mediaType.split("/")[0] ?? "";
  if (kind === "text" || mediaType === "application/json") return true;
  return (
    inputs.includes(kind) ||
    (mediaType === "application/pdf" && (inputs.includes("file") || inputs.includes("pdf")))
  );
}

export function costOf(
  model: Model | undefined,
  usage: { inputTokens: number; outputTokens: number; cachedInputTokens?: number } | undefined,
): { amount: number; currency: string } | null {
  const price = model?.price;
  if (price === null || price === undefined || usage === undefined) return null;
  if (usage.inputTokens > price.below) return null;
  const cached = price.cached === null ? 0 : (usage.cachedInputTokens ?? 0);
  const amount =
    ((usage.inputTokens - cached) * price.input +
      cached * (price.cached ?? 0) +
      usage.outputTokens * price.output) /
    1e6;
  return { amount, currency: price.currency };
}

function record(value: unknown): Record<string, unknown> | null {
  return value !== null && typeof value === "object" && !Array.isArray(value)
    ? (value as Record<string, unknown>)
    : null;
}

function number(value: unknown): number | null {
  return typeof value === "number" ? value : null;
}

function strings(value: unknown): string[] | null {
  return Array.isArray(value) && value.every((one) => typeof one === "string") ? value : null;
}

/** What a person has chosen, kept in this browser. Nothing here is a secret. */

import { modelOf, models } from "./models";
import { Observable, useObservable } from "./observable";
import type { Protocol } from "./transport";

export interface Settings {
  /** None: the gateway's own default. */
  protocol: Protocol | null;
  model: string | null;
  effort: string | null;
  instructions: string;
  temperature: number | null;
  topP: number | null;
  maxOutputTokens: number | null;
  tools: string[];
  theme: "system" | "light" | "dark";
  sidebar: boolean;
  inspector: boolean;
}

const NAME = "antiphon.settings";
const DEFAULTS: Settings = {
  protocol: null,
  model: null,
  effort: null,
  instructions: "",
  temperature: null,
  topP: null,
  maxOutputTokens: null,
  tools: [],
  theme: "system",
  sidebar: true,
  inspector: false,
};

function read(): Settings {
  try {
    const kept: unknown = JSON.parse(localStorage.getItem(NAME) ?? "{}");
    return { ...DEFAULTS, ...(kept as Partial<Settings>) };
  } catch {
    return DEFAULTS;
  }
}

export const settings = new Observable<Settings>(read());

/** What the gateway's flags say for those who have not chosen. */
export const defaultProtocol = new Observable<Protocol>("ui");

settings.subscribe(() => {
  localStorage.setItem(NAME, JSON.stringify(settings.value));
  applyTheme();
});

export function applyTheme(): void {
  const { theme } = settings.value;
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

export function useSettings(): Settings {
  return useObservable(settings);
}

export function protocol(): Protocol {
  return settings.value.protocol ?? defaultProtocol.value;
}

/** The parameters of a request, beside what is said. */
export function parameters(): Record<string, unknown> {
  const { model, effort, instructions, temperature, topP, maxOutputTokens, tools } = settings.value;
  // What was chosen for another model, or is not announced any more, would be refused.
  const offered = modelOf(models.value.models, model)?.tools ?? [];
  const used = tools.filter((type) => offered.includes(type));
  const given: Record<string, unknown> = {
    model: model ?? undefined,
    reasoning: effort === null ? undefined : { effort },
    instructions: instructions.trim() || undefined,
    temperature: temperature ?? undefined,
    top_p: topP ?? undefined,
    max_output_tokens: maxOutputTokens ?? undefined,
    tools: used.length === 0 ? undefined : used.map((type) => ({ type })),
  };
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
}

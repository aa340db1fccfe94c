/** What the inspector knows of a response: its event log as it comes, and the response itself with its receipts. */

import { ask, call } from "./api";
import { Observable } from "./observable";
import type { ResponseEvent } from "./open_responses";
import type { Item } from "./protocol";
import { events } from "./sse";

export interface Logged {
  number: number;
  type: string;
  /** Milliseconds since the first event, where the page has seen it come. */
  at: number | null;
  size: number;
  data: string;
}

export interface FullResponse {
  id: string;
  model: string;
  status: string;
  output: Item[];
  previous_response_id: string | null;
  [field: string]: unknown;
}

export interface Inspected {
  log: Logged[];
  size: number;
  isLive: boolean;
  isOver: boolean;
  response: FullResponse | null;
  input: Item[];
  verdict: Verdict | null;
  /** The gateway has no events of it, or no longer. */
  isMissing: boolean;
}

/** The Auditor's verdict on the events of this response. */
export interface Verdict {
  events: number;
  violations: { rule: string; level: string; event: number; type: string | null; message: string }[];
}

const TERMINAL = new Set(["response.completed", "response.incomplete", "response.failed"]);
const LATE = 1000;

export class Inspection {
  readonly state = new Observable<Inspected>({
    log: [],
    size: 0,
    isLive: false,
    isOver: false,
    response: null,
    input: [],
    verdict: null,
    isMissing: false,
  });
  private readonly abort = new AbortController();

  constructor(readonly id: string) {
    void this.follow();
  }

  close(): void {
    this.abort.abort();
  }

  private async follow(): Promise<void> {
    const { signal } = this.abort;
    try {
      const answer = await ask(`/v1/responses/${this.id}?stream=true`, { signal });
      if (answer.body === null) return;
      const began = performance.now();
      let log: Logged[] = [];
      let size = 0;
      let first: number | null = null;
      for await (const batch of events(answer.body)) {
        const now = performance.now();
        const made = batch
          .filter(({ data }) => data !== "[DONE]")
          .map(({ data, size: length }): Logged => {
            const event = JSON.parse(data) as ResponseEvent;
            return { number: event.sequence_number, type: event.type, at: null, size: length, data };
          });
        if (made.length === 0) continue;
        // What was there before the page looked came at once; only what came later has a time.
        const isOver = made.some((event) => TERMINAL.has(event.type));
        first ??= now;
        const isLive = log.length > 0 || (!isOver && now - began < LATE);
        if (isLive) for (const event of made) event.at = now - first;
        log = log.concat(made);
        size += made.reduce((sum, event) => sum + event.size, 0);
        this.state.change({ log, size, isLive, isOver });
      }
    } catch {
      this.state.change({ isMissing: true });
    }
    if (!signal.aborted) await this.read().catch(() => this.state.change({ isMissing: true }));
  }

  private async read(): Promise<void> {
    const { signal } = this.abort;
    const answer = await ask(`/v1/responses/${this.id}`, { headers: { "X-Antiphon-Receipts": "1" }, signal });
    const response = (await answer.json()) as FullResponse;
    const [input, verdict] = await Promise.all([
      call<{ data: Item[] }>(
        "GET",
        `/v1/responses/${this.id}/input_items?order=asc&limit=100`,
        undefined,
        signal,
      ),
      // One without a log, or in another dialect, is not judged.
      call<Verdict>("GET", `/v1/antiphon/audit/${this.id}`, undefined, signal).catch(() => null),
    ]);
    this.state.change({ response, input: input.data, verdict });
  }
}

const ECHOED = [
  "instructions",
  "tools",
  "tool_choice",
  "reasoning",
  "text",
  "temperature",
  "top_p",
  "max_output_tokens",
];

/** The request as it could be sent again; what the response repeats of it, and the turn's own words. */
export function requestOf(response: FullResponse, input: Item[]): Record<string, unknown> {
  const last = input.findLastIndex((item) => item.role === "assistant" || item.type === "reasoning");
  const own = response.previous_response_id === null ? input : input.slice(last + 1);
  const echoed = ECHOED.map((name) => [name, response[name]] as const).filter(
    ([, value]) => value !== null && value !== undefined && !(Array.isArray(value) && value.length === 0),
  );
  return {
    model: response.model,
    ...(response.previous_response_id === null
      ? {}
      : { previous_response_id: response.previous_response_id }),
    ...Object.fromEntries(echoed),
    input: own.map(({ id: _, status: __, ...item }) => item),
    stream: true,
  };
}

export function curlOf(request: Record<string, unknown>, origin: string, hasKey: boolean): string {
  const key = hasKey ? ` \\\n  -H "Authorization: Bearer $ANTIPHON_API_KEY"` : "";
  const body = JSON.stringify(request, null, 2).replaceAll("'", "'\\''");
  return `curl -N ${origin}/v1/responses \\\n  -H 'Content-Type: application/json'${key} \\\n  -d '${body}'\n`;
}

/** As the gateway sent it: what `antiphon comply --capture` reads. */
export function captureOf(log: readonly Logged[]): string {
  const lines = log.map(({ type, data }) => `event: ${type}\ndata: ${data}\n\n`);
  return `${lines.join("")}data: [DONE]\n\n`;
}

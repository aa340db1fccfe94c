/** What the inspector knows of a response: its event log as it comes, and the response itself with its receipts. */

import { ApiError, ask, call } from "./api";
import { Observable } from "./observable";
import type { ResponseEvent } from "./open_responses";
import type { Item } from "./protocol";
import { events, type ServerSentEvent } from "./sse";

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
const RUNNING = new Set(["queued", "in_progress"]);
const PAUSE = 1000;

function read({ data, size }: ServerSentEvent): Logged {
  const event = JSON.parse(data) as ResponseEvent;
  return { number: event.sequence_number, type: event.type, at: null, size, data };
}

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
  /** When the first event came. */
  private first: number | null = null;
  /** Was it still being answered when the page began to look? */
  private isRunning: boolean | null = null;

  constructor(readonly id: string) {
    void this.follow();
  }

  close(): void {
    this.abort.abort();
  }

  private async follow(): Promise<void> {
    const { signal } = this.abort;
    // A gateway that restarts breaks the stream off; the log is there again when it is.
    while (!signal.aborted && !this.state.value.isOver) {
      try {
        if (!(await this.listen())) break;
      } catch (error) {
        if (error instanceof ApiError && !error.isOffline) break;
        await new Promise((resolve) => setTimeout(resolve, PAUSE));
      }
    }
    if (signal.aborted) return;
    this.state.change({ isMissing: this.state.value.log.length === 0 });
    await this.read().catch(() => {});
  }

  /** Reads on after the last event; whether there were any. */
  private async listen(): Promise<boolean> {
    const { signal } = this.abort;
    if (this.isRunning === null) {
      const { status } = await call<FullResponse>("GET", `/v1/responses/${this.id}`, undefined, signal);
      this.isRunning = RUNNING.has(status);
    }
    const last = this.state.value.log.at(-1)?.number;
    const after = last === undefined ? "" : `&starting_after=${last}`;
    const answer = await ask(`/v1/responses/${this.id}?stream=true${after}`, { signal });
    if (answer.body === null) return false;
    let isAny = false;
    for await (const batch of events(answer.body)) {
      const made = batch.filter(({ data }) => data !== "[DONE]").map(read);
      if (made.length === 0) continue;
      isAny = true;
      this.add(made);
    }
    return isAny;
  }

  private add(made: Logged[]): void {
    const { log, size } = this.state.value;
    const now = performance.now();
    // A log that was whole before the page looked comes at once, and says nothing about time.
    const isOver = made.some((event) => TERMINAL.has(event.type));
    this.first ??= now;
    const isLive = this.isRunning === true;
    if (isLive) for (const event of made) event.at = now - this.first;
    const added = made.reduce((sum, event) => sum + event.size, 0);
    this.state.change({ log: log.concat(made), size: size + added, isLive, isOver });
  }

  private async read(): Promise<void> {
    const { signal } = this.abort;
    const response = await call<FullResponse>("GET", `/v1/responses/${this.id}`, undefined, signal);
    const [input, verdict] = await Promise.all([
      call<{ data: Item[] }>(
        "GET",
        `/v1/responses/${this.id}/input_items?order=desc&limit=100`,
        undefined,
        signal,
      ),
      // One without a log, or in another dialect, is not judged.
      call<Verdict>("GET", `/v1/antiphon/audit/${this.id}`, undefined, signal).catch(() => null),
    ]);
    // The newest come first, so that in a long chat the turn's own words are among them.
    this.state.change({ response, input: input.data.reverse(), verdict });
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

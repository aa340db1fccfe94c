// The gateway's side: its models, its count of tokens, and its answers as they come. Nothing here knows VS Code.

export interface Settings {
  readonly url: string;
  readonly key: string | undefined;
  /** Milliseconds without a line from the model after which a request is given up. */
  readonly inactivity: number;
}

export interface Start {
  readonly type: "start";
  readonly responseId: string;
  readonly model: string;
  readonly sessionId?: string;
}

export interface Finish {
  readonly type: "finish";
  readonly reason: "stop" | "tool-calls" | "length" | "content-filter" | "other" | "error" | "cancelled";
  readonly error?: { readonly code: string; readonly message: string };
}

export type WirePart =
  | { readonly type: "text"; readonly value: string }
  | { readonly type: "thinking"; readonly value: string; readonly id?: string; readonly metadata?: object }
  | { readonly type: "data"; readonly mimeType: string; readonly data: string }
  | { readonly type: "toolCall"; readonly callId: string; readonly name: string; readonly input: object }
  | { readonly type: "toolResult"; readonly callId: string; readonly content: readonly { value: string }[] };

export type Line = Start | WirePart | Finish;

/** What the gateway said was wrong. */
export class GatewayError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
  ) {
    super(message);
  }
}

export async function models(settings: Settings, signal: AbortSignal): Promise<string[]> {
  const answer = await send(settings, "GET", "/v1/models", undefined, signal);
  const list = (await answer.json()) as { data: { id: string }[] };
  return list.data.map((model) => model.id);
}

/** The exact number of tokens, or undefined where the model behind the gateway cannot count. */
export async function countTokens(
  settings: Settings,
  model: string,
  input: string,
  signal: AbortSignal,
): Promise<number | undefined> {
  try {
    const answer = await send(settings, "POST", "/v1/responses/input_tokens", { model, input }, signal);
    return ((await answer.json()) as { input_tokens: number }).input_tokens;
  } catch (error) {
    if (error instanceof GatewayError) {
      return undefined;
    }
    throw error;
  }
}

/** The lines of one answer. Whoever stops reading ends the request; so does a model that falls silent. */
export async function* chat(settings: Settings, body: object, signal: AbortSignal): AsyncGenerator<Line> {
  const ended = new AbortController();
  const either = AbortSignal.any([signal, ended.signal]);
  const silence = new Error(`the model has been silent for ${settings.inactivity / 1000} seconds`);
  const expire = () => ended.abort(silence);
  let timer = setTimeout(expire, settings.inactivity);
  try {
    const answer = await send(settings, "POST", "/api/vscode/chat", body, either);
    for await (const line of lines(answer)) {
      // An empty line says that the connection lives, not that the model does.
      if (line.trim() !== "") {
        clearTimeout(timer);
        timer = setTimeout(expire, settings.inactivity);
        yield JSON.parse(line) as Line;
      }
    }
  } catch (error) {
    throw ended.signal.aborted ? silence : error;
  } finally {
    clearTimeout(timer);
    ended.abort();
  }
}

async function* lines(answer: Response): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of answer.body ?? []) {
    const whole = (rest + decoder.decode(chunk, { stream: true })).split("\n");
    rest = whole.pop() ?? "";
    yield* whole;
  }
  yield rest + decoder.decode();
}

async function send(
  settings: Settings,
  method: string,
  path: string,
  body: object | undefined,
  signal: AbortSignal,
): Promise<Response> {
  const headers: Record<string, string> = { "content-type": "application/json" };
  if (settings.key !== undefined) {
    headers["authorization"] = `Bearer ${settings.key}`;
  }
  const sent = body === undefined ? null : JSON.stringify(body);
  const url = settings.url.replace(/\/+$/, "") + path;
  const answer = await fetch(url, { method, headers, body: sent, signal });
  if (answer.ok) {
    return answer;
  }
  const text = await answer.text();
  try {
    const { error } = JSON.parse(text) as { error: { code: string; message: string; param?: string } };
    const where = error.param ? ` (${error.param})` : "";
    throw new GatewayError(answer.status, error.code, error.message + where);
  } catch (error) {
    throw error instanceof GatewayError ? error : new GatewayError(answer.status, "", text.slice(0, 500));
  }
}

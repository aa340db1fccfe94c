/** Requests to the gateway that has served this page. The key, where there is one, lives in this module's memory only. */

import type { Failure } from "./protocol";

export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly failure: Failure,
    readonly requestId: string | null,
  ) {
    super(failure.message);
  }

  get isOffline(): boolean {
    return this.status === 0;
  }
}

let key: string | null = null;
let whenRefused: () => void = () => {};

export function sendKey(given: string | null): void {
  key = given;
}

export function onRefused(callback: () => void): void {
  whenRefused = callback;
}

export function headers(): Record<string, string> {
  return key === null ? {} : { Authorization: `Bearer ${key}` };
}

/** Responses keep their receipts for the inspector only if they were asked for when the responses were made. */
const RECEIPTS = "X-Antiphon-Receipts";

/** `fetch` with the key; a 401 leads back to the question for one, and any error is an `ApiError`. */
export async function ask(input: RequestInfo | URL, init: RequestInit = {}): Promise<Response> {
  const sent = new Headers(init.headers);
  sent.set(RECEIPTS, "1");
  for (const [name, value] of Object.entries(headers())) sent.set(name, value);
  let answer: Response;
  try {
    answer = await fetch(input, { ...init, headers: sent, credentials: "same-origin" });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError(0, { code: "offline", message: "" }, null);
  }
  if (answer.ok) return answer;
  if (answer.status === 401) whenRefused();
  throw await failure(answer);
}

async function failure(answer: Response): Promise<ApiError> {
  const id = answer.headers.get("x-request-id");
  const told: unknown = await answer.json().catch(() => null);
  const given = told !== null && typeof told === "object" && "error" in told ? (told.error as Failure) : null;
  return new ApiError(answer.status, given ?? { message: answer.statusText }, id);
}

export async function call<T>(
  method: string,
  path: string,
  body?: unknown,
  signal?: AbortSignal,
): Promise<T> {
  const init: RequestInit = { method, signal };
  if (body !== undefined) {
    init.body = JSON.stringify(body);
    init.headers = { "Content-Type": "application/json" };
  }
  const answer = await ask(path, init);
  return (answer.status === 204 ? undefined : await answer.json()) as T;
}

export const CHATS = "/v1/antiphon/chats";
/** An id comes from the address, which anybody can write: it must not lead to another path. */
export const pathOf = (chat: string): string => `${CHATS}/${encodeURIComponent(chat)}`;
export const SESSION = "/v1/antiphon/session";

/** Words that were typed and not sent, one draft a chat. */

import type { Outgoing, Unsent } from "./conversation";

const PREFIX = "antiphon.draft.";

export function draft(chat: string | null): string {
  return localStorage.getItem(PREFIX + (chat ?? "new")) ?? "";
}

export function keepDraft(chat: string | null, text: string): void {
  const name = PREFIX + (chat ?? "new");
  keep(localStorage, name, text);
}

const QUEUE = "antiphon.queue.";

/** What waits for its turn survives a reload of its own tab; another tab would send it twice. */
export function queued(chat: string): Outgoing[] {
  return JSON.parse(sessionStorage.getItem(QUEUE + chat) ?? "[]") as Outgoing[];
}

export function keepQueue(chat: string, queue: readonly Outgoing[]): void {
  keep(sessionStorage, QUEUE + chat, queue.length === 0 ? "" : JSON.stringify(queue));
}

const UNSENT = "antiphon.unsent.";

/** What was sent while the gateway was away survives a reload of its tab until the gateway is back. */
export function unsent(chat: string): Unsent[] {
  return JSON.parse(sessionStorage.getItem(UNSENT + chat) ?? "[]") as Unsent[];
}

export function keepUnsent(chat: string, messages: readonly Unsent[]): void {
  keep(sessionStorage, UNSENT + chat, messages.length === 0 ? "" : JSON.stringify(messages));
}

/** A browser keeps a few megabytes. What is larger, such as a file, does not survive a reload, and is sent all the same. */
function keep(storage: Storage, name: string, text: string): void {
  storage.removeItem(name);
  if (text === "") return;
  try {
    storage.setItem(name, text);
  } catch {
    // It stays in the page alone.
  }
}

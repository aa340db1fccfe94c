/** Words that were typed and not sent, one draft a chat. */

import type { Outgoing } from "./conversation";

const PREFIX = "antiphon.draft.";

export function draft(chat: string | null): string {
  return localStorage.getItem(PREFIX + (chat ?? "new")) ?? "";
}

export function keepDraft(chat: string | null, text: string): void {
  const name = PREFIX + (chat ?? "new");
  if (text === "") localStorage.removeItem(name);
  else localStorage.setItem(name, text);
}

const QUEUE = "antiphon.queue.";

/** What waits for its turn survives a reload of its own tab; another tab would send it twice. */
export function queued(chat: string): Outgoing[] {
  return JSON.parse(sessionStorage.getItem(QUEUE + chat) ?? "[]") as Outgoing[];
}

export function keepQueue(chat: string, queue: readonly Outgoing[]): void {
  if (queue.length === 0) sessionStorage.removeItem(QUEUE + chat);
  else sessionStorage.setItem(QUEUE + chat, JSON.stringify(queue));
}

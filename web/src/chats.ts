/** The list of chats, newest first, as far as it was asked for. */

import { ApiError, CHATS, call, pathOf } from "./api";
import { conversation, forget } from "./conversation";
import { Observable } from "./observable";
import type { ChatObject, Page } from "./protocol";
import { announce, onChange } from "./tabs";

interface State {
  chats: ChatObject[];
  hasMore: boolean;
  search: string;
  isLoaded: boolean;
  /** Why it could not be read. */
  problem: ApiError | null;
  /** Why the last change of a chat did not happen. */
  refused: ApiError | null;
}

const LIMIT = 40;
export const list = new Observable<State>({
  chats: [],
  hasMore: false,
  search: "",
  isLoaded: false,
  problem: null,
  refused: null,
});
let asked = 0;

async function page(after?: string): Promise<void> {
  const number = ++asked;
  const query = new URLSearchParams({ limit: String(LIMIT) });
  if (list.value.search !== "") query.set("search", list.value.search);
  if (after !== undefined) query.set("after", after);
  try {
    const found = await call<Page<ChatObject>>("GET", `${CHATS}?${query}`);
    if (number !== asked) return;
    const chats = after === undefined ? found.data : [...list.value.chats, ...found.data];
    list.change({ chats, hasMore: found.has_more, isLoaded: true, problem: null });
  } catch (error) {
    if (error instanceof ApiError) list.change({ problem: error, isLoaded: true });
  }
}

export function forgetList(): void {
  list.set({ chats: [], hasMore: false, search: "", isLoaded: false, problem: null, refused: null });
}

export const refresh = (): Promise<void> => page();
export const more = (): Promise<void> => page(list.value.chats.at(-1)?.id);

export function search(text: string): void {
  list.change({ search: text });
  void page();
}

export async function create(): Promise<ChatObject> {
  return call<ChatObject>("POST", CHATS, {});
}

export async function change(id: string, fields: { title?: string; pinned?: boolean }): Promise<void> {
  await runChange(id, async () => {
    const chat = await call<ChatObject>("POST", pathOf(id), fields);
    conversation(id).state.change({ chat });
  });
}

/** Is it gone? */
export async function remove(id: string): Promise<boolean> {
  const isGone = await runChange(id, () => call("DELETE", pathOf(id)));
  if (isGone) forget(id);
  return isGone;
}

/** Runs a change. If it fails, the list stays as it was and shows why; a chat that is gone already leaves the list. */
async function runChange(id: string, work: () => Promise<void>): Promise<boolean> {
  try {
    await work();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.status !== 404) {
      list.change({ refused: error });
      return false;
    }
  }
  list.change({ refused: null });
  announce(id);
  return true;
}

onChange(() => void refresh());

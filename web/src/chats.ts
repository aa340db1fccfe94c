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
  problem: ApiError | null;
}

const LIMIT = 40;
export const list = new Observable<State>({
  chats: [],
  hasMore: false,
  search: "",
  isLoaded: false,
  problem: null,
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
  list.set({ chats: [], hasMore: false, search: "", isLoaded: false, problem: null });
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
  await told(id, async () => {
    const chat = await call<ChatObject>("POST", pathOf(id), fields);
    conversation(id).state.change({ chat });
  });
}

export async function remove(id: string): Promise<void> {
  await told(id, () => call("DELETE", pathOf(id)));
  forget(id);
}

/** What cannot be changed is said beside the list; what is gone already only leaves it. */
async function told(id: string, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.status !== 404) {
      list.change({ problem: error });
      return;
    }
  }
  announce(id);
}

onChange(() => void refresh());

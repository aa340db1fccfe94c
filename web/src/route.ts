/** The address names the chat: `/c/ID`, or `/` for a new one. */

import { Observable, useObservable } from "./observable";

function read(): string | null {
  const found = /^\/c\/([^/]+)$/.exec(location.pathname)?.[1];
  if (found === undefined) return null;
  try {
    return decodeURIComponent(found);
  } catch {
    return found;
  }
}

const current = new Observable<string | null>(read());
addEventListener("popstate", () => current.set(read()));

export function useChatId(): string | null {
  return useObservable(current);
}

export function show(id: string | null, how: "push" | "replace" = "push"): void {
  const path = id === null ? "/" : `/c/${encodeURIComponent(id)}`;
  if (path !== location.pathname) {
    if (how === "push") history.pushState(null, "", path);
    else history.replaceState(null, "", path);
  }
  current.set(id);
}

/** The whole: chats on the left, the chat, the inspector on the right; the question for a key before all that. */

import { Component, lazy, type ReactNode, Suspense, useCallback, useEffect, useState } from "react";
import { flushSync } from "react-dom";
import { Access } from "./access";
import { ApiError, call, onRefused, SESSION, sendKey } from "./api";
import { ChatView, Problem } from "./chat_view";
import { forgetList, list, refresh } from "./chats";
import { IconButton, Menu } from "./controls";
import { conversation, forgetAll } from "./conversation";
import { asJson, asMarkdown, download, fileName } from "./export";
import { Dots, Mark, Panel, Plus, Sidebar as SidebarIcon } from "./icons";
import { loadModels } from "./models";
import { NewChat } from "./new_chat";
import { Observable, useObservable } from "./observable";
import { warmUp } from "./parts";
import type { ChatObject, SessionObject } from "./protocol";
import { show, useChatId } from "./route";
import { defaultProtocol, settings, useSettings } from "./settings";
import { DeleteDialog, Sidebar } from "./sidebar";
import { text } from "./text";

const Inspector = lazy(() => import("./inspector"));
const SettingsDialog = lazy(() => import("./settings_dialog"));
const KeyboardDialog = lazy(async () => ({ default: (await import("./settings_dialog")).KeyboardDialog }));

type Entry =
  | { state: "asking" }
  | { state: "refused" }
  | { state: "in"; session: SessionObject }
  | { state: "failed"; problem: ApiError };

export function App() {
  const [entry, setEntry] = useState<Entry>({ state: "asking" });
  const enter = useCallback((session: SessionObject) => {
    defaultProtocol.set(session.protocol === "open-responses" ? "open-responses" : "ui");
    setEntry({ state: "in", session });
    void refresh();
    void loadModels().catch(() => {});
    warmUp();
  }, []);
  const begin = useCallback(async () => {
    try {
      enter(await call<SessionObject>("GET", SESSION));
    } catch (error) {
      if (error instanceof ApiError)
        setEntry(error.status === 401 ? { state: "refused" } : { state: "failed", problem: error });
    }
  }, [enter]);
  useEffect(() => {
    onRefused(() => {
      forgetAll();
      forgetList();
      setEntry({ state: "refused" });
    });
    void begin();
  }, [begin]);
  useEffect(() => {
    if (entry.state !== "failed") return;
    const timer = setTimeout(() => void begin(), 2000);
    return () => clearTimeout(timer);
  }, [entry, begin]);

  if (entry.state === "asking") return null;
  if (entry.state === "refused") return <Access onEntered={enter} />;
  if (entry.state === "failed")
    return (
      <main className="mx-auto flex h-full max-w-lg flex-col justify-center p-8">
        <Mark size={40} />
        <Problem problem={entry.problem} onRetry={() => void begin()} />
      </main>
    );
  return (
    <Guard>
      <Room session={entry.session} onLeft={() => setEntry({ state: "refused" })} />
    </Guard>
  );
}

const isNarrow = () => matchMedia("(max-width: 767px)").matches;

function Room({ session, onLeft }: { session: SessionObject; onLeft: () => void }) {
  const id = useChatId();
  const { sidebar, inspector } = useSettings();
  const [isDrawer, setDrawer] = useState(false);
  const [dialog, setDialog] = useState<"settings" | "keys" | null>(null);
  const [inspected, setInspected] = useState<string | null>(null);
  const close = () => setDialog(null);
  const inspect = useCallback((response: string) => {
    setInspected(response);
    settings.change({ inspector: true });
  }, []);
  const toggleSidebar = useCallback(() => {
    if (isNarrow()) setDrawer((before) => !before);
    else settings.change({ sidebar: !settings.value.sidebar });
  }, []);
  const showSidebar = useCallback(() => {
    if (isNarrow()) setDrawer(true);
    else settings.change({ sidebar: true });
  }, []);
  useShortcuts(id, toggleSidebar, showSidebar, setDialog);
  const leave = async () => {
    await call("DELETE", SESSION).catch(() => {});
    sendKey(null);
    forgetAll();
    forgetList();
    onLeft();
  };
  return (
    <div className="flex h-full overflow-hidden">
      <a
        href="#chat"
        className="sr-only focus:not-sr-only focus:absolute focus:z-50 focus:bg-paper focus:p-2"
      >
        {text.skip}
      </a>
      {isDrawer && (
        <button
          type="button"
          className="fixed inset-0 z-30 bg-black/35 md:hidden"
          aria-label={text.sidebar.hide}
          onClick={() => setDrawer(false)}
        />
      )}
      <div
        className={`z-40 w-[17rem] shrink-0 border-r border-line max-md:fixed max-md:inset-y-0 max-md:left-0 max-md:shadow-xl ${isDrawer ? "" : "max-md:hidden"} ${sidebar ? "" : "md:hidden"}`}
      >
        <Sidebar
          current={id}
          onHide={toggleSidebar}
          onSettings={() => setDialog("settings")}
          onChosen={() => setDrawer(false)}
        />
      </div>
      <main id="chat" className="flex min-w-0 grow flex-col">
        <Header id={id} isWide={!sidebar} onSidebar={toggleSidebar} />
        {id === null ? <NewChat /> : <ChatView key={id} id={id} onLatest={setInspected} onOpen={inspect} />}
      </main>
      {inspector && (
        <div className="z-40 w-[25rem] shrink-0 border-l border-line max-lg:fixed max-lg:inset-y-0 max-lg:right-0 max-lg:w-full max-lg:max-w-[25rem] max-lg:shadow-xl">
          <Suspense>
            <Inspector
              response={inspected}
              hasKey={session.key !== null}
              onClose={() => settings.change({ inspector: false })}
            />
          </Suspense>
        </div>
      )}
      <Suspense>
        {dialog === "settings" && <SettingsDialog session={session} onClose={close} onLeave={leave} />}
        {dialog === "keys" && <KeyboardDialog onClose={close} />}
      </Suspense>
    </div>
  );
}

const day = (seconds: number) =>
  new Date(seconds * 1000).toLocaleDateString(undefined, { day: "numeric", month: "short" });

/** The chat on the screen: as the list has it, or as it was read itself where the list does not reach it. */
function useShownChat(id: string | null): ChatObject | null {
  const { chats } = useObservable(list);
  const { chat } = useObservable(id === null ? NOTHING : conversation(id).state);
  return chats.find((one) => one.id === id) ?? chat;
}
const NOTHING = new Observable<{ chat: ChatObject | null }>({ chat: null });

interface HeaderProps {
  id: string | null;
  isWide: boolean;
  onSidebar: () => void;
}

function Header({ id, isWide, onSidebar }: HeaderProps) {
  const { inspector } = useSettings();
  const chat = useShownChat(id);
  const [isDeleting, setDeleting] = useState(false);
  const save = (kind: "md" | "json") => {
    if (id === null) return;
    const { ai, state } = conversation(id);
    const { chat: full, tree } = state.value;
    if (full === null) return;
    const name = `${fileName(full.title)}.${kind}`;
    if (kind === "md") download(name, "text/markdown", asMarkdown(full, ai.messages));
    else download(name, "application/json", asJson(full, tree.nodes.values()));
  };
  return (
    <header className="flex h-12 shrink-0 items-center gap-1 px-2">
      <div className={isWide ? "" : "md:hidden"}>
        <IconButton label={text.sidebar.show} onClick={onSidebar}>
          <SidebarIcon />
        </IconButton>
      </div>
      <div className={isWide ? "" : "md:hidden"}>
        <IconButton label={text.newChat} onClick={() => show(null)}>
          <Plus />
        </IconButton>
      </div>
      <div className="flex min-w-0 grow items-baseline justify-center gap-3 px-2">
        {id !== null && <h1 className="truncate text-sm text-muted">{chat?.title ?? text.untitled}</h1>}
        {chat?.expires_at && (
          <span className="figures shrink-0 max-sm:hidden">{text.chat.expires(day(chat.expires_at))}</span>
        )}
      </div>
      {id !== null && (
        <Menu
          label={text.chat.options}
          icon={<Dots />}
          choices={[
            { label: text.chat.exportMarkdown, onChoose: () => save("md") },
            { label: text.chat.exportJson, onChoose: () => save("json") },
            { label: text.chat.delete, onChoose: () => setDeleting(true), isDangerous: true },
          ]}
        />
      )}
      <IconButton
        label={inspector ? text.inspector.hide : text.inspector.show}
        pressed={inspector}
        onClick={() => settings.change({ inspector: !inspector })}
      >
        <Panel />
      </IconButton>
      {isDeleting && chat && (
        <DeleteDialog
          chat={chat}
          onClose={() => setDeleting(false)}
          onDeleted={() => show(null, "replace")}
        />
      )}
    </header>
  );
}

function useShortcuts(
  id: string | null,
  onSidebar: () => void,
  onSearch: () => void,
  onDialog: (name: "settings" | "keys" | null) => void,
): void {
  useEffect(() => {
    const actions: Record<string, () => void> = {
      k: () => {
        // At once: what is typed next belongs into the field.
        flushSync(onSearch);
        document.getElementById("search")?.focus();
      },
      b: onSidebar,
      ".": () => settings.change({ inspector: !settings.value.inspector }),
      ",": () => onDialog("settings"),
      "/": () => onDialog("keys"),
    };
    const onKeyDown = (event: globalThis.KeyboardEvent) => {
      const isCommand = event.ctrlKey || event.metaKey;
      if (
        event.key === "Escape" &&
        id !== null &&
        conversation(id).isRunning &&
        !document.querySelector("dialog[open]")
      ) {
        void conversation(id).stop();
      } else if (isCommand && event.shiftKey && event.key.toLowerCase() === "o") {
        event.preventDefault();
        show(null);
      } else if (isCommand && !event.shiftKey && event.key in actions) {
        event.preventDefault();
        actions[event.key]?.();
      }
    };
    addEventListener("keydown", onKeyDown);
    return () => removeEventListener("keydown", onKeyDown);
  }, [id, onSidebar, onSearch, onDialog]);
}

class Guard extends Component<{ children: ReactNode }, { error: Error | null }> {
  override state: { error: Error | null } = { error: null };

  static getDerivedStateFromError(error: Error) {
    return { error };
  }

  override render() {
    if (this.state.error === null) return this.props.children;
    return (
      <main className="mx-auto max-w-lg p-8" role="alert">
        <p className="font-serif text-xl">{text.error.crashed}</p>
        <p className="figures my-3">{this.state.error.message}</p>
        <button type="button" className="firm" onClick={() => location.reload()}>
          {text.error.reload}
        </button>
      </main>
    );
  }
}

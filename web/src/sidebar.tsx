/** The list of chats, which the terminal shares: search, rename, pin, delete. */

import { type ReactNode, useEffect, useRef, useState } from "react";
import { change, list, more, remove, search } from "./chats";
import { Dialog, IconButton, Menu } from "./controls";
import { Dots, Gear, Mark, Pencil, Search, Sidebar as SidebarIcon } from "./icons";
import { useObservable } from "./observable";
import type { ChatObject } from "./protocol";
import { show } from "./route";
import { text } from "./text";

const DAY = 86_400;

function groups(chats: readonly ChatObject[], isSearch: boolean): [string, ChatObject[]][] {
  if (isSearch) return [["", [...chats]]];
  const now = Date.now() / 1000;
  const group = (chat: ChatObject) => {
    if (chat.pinned) return text.sidebar.pinned;
    if (now - chat.updated_at < DAY) return text.sidebar.today;
    return now - chat.updated_at < 7 * DAY ? text.sidebar.week : text.sidebar.earlier;
  };
  const order = [text.sidebar.pinned, text.sidebar.today, text.sidebar.week, text.sidebar.earlier];
  return order
    .map((name): [string, ChatObject[]] => [name, chats.filter((chat) => group(chat) === name)])
    .filter(([, found]) => found.length > 0);
}

interface SidebarProps {
  current: string | null;
  onHide: () => void;
  onSettings: () => void;
  onChosen: () => void;
}

export function Sidebar({ current, onHide, onSettings, onChosen }: SidebarProps) {
  const state = useObservable(list);
  const [deleting, setDeleting] = useState<ChatObject | null>(null);
  const choose = (id: string | null) => {
    show(id);
    onChosen();
  };
  return (
    <nav aria-label={text.sidebar.label} className="flex h-full flex-col bg-panel">
      <div className="flex items-center justify-between px-3 pt-3 pb-2">
        <button type="button" className="flex items-center gap-2 rounded px-1" onClick={() => choose(null)}>
          <Mark size={22} />
          <span className="font-serif text-[1.0625rem] font-semibold tracking-tight">{text.name}</span>
        </button>
        <IconButton label={text.sidebar.hide} onClick={onHide}>
          <SidebarIcon />
        </IconButton>
      </div>
      <div className="px-3 pb-2">
        <button
          type="button"
          className="mb-2 flex w-full items-center gap-2 rounded-lg border border-line bg-paper px-3 py-2 text-sm font-medium hover:border-muted"
          onClick={() => choose(null)}
        >
          <Pencil />
          {text.newChat}
        </button>
        <label className="flex items-center gap-2 px-3 text-muted">
          <Search />
          <input
            id="search"
            type="search"
            className="w-full rounded bg-transparent py-1 text-sm text-ink placeholder:text-muted focus-visible:outline-offset-4"
            placeholder={text.sidebar.search}
            aria-label={text.sidebar.search}
            value={state.search}
            onChange={(event) => search(event.target.value)}
          />
        </label>
      </div>
      <div className="grow overflow-y-auto px-2 pb-4">
        {state.problem && !state.problem.isOffline && <Trouble>{state.problem.message}</Trouble>}
        {state.refused && (
          <Trouble>
            {text.sidebar.unchanged} {state.refused.isOffline ? text.error.offline : state.refused.message}
          </Trouble>
        )}
        {state.isLoaded && state.chats.length === 0 && state.problem === null && (
          <p className="px-3 py-2 text-sm text-muted">
            {state.search === "" ? text.sidebar.empty : text.sidebar.nothing(state.search)}
          </p>
        )}
        {groups(state.chats, state.search !== "").map(([name, chats]) => (
          <section key={name} aria-label={name || undefined}>
            {name && <h2 className="label px-3 pt-3 pb-1">{name}</h2>}
            <ul>
              {chats.map((chat) => (
                <Row
                  key={chat.id}
                  chat={chat}
                  isCurrent={chat.id === current}
                  onChoose={() => choose(chat.id)}
                  onDelete={() => setDeleting(chat)}
                />
              ))}
            </ul>
          </section>
        ))}
        {state.hasMore && <MoreButton key={state.chats.length} />}
      </div>
      <div className="flex border-t border-line px-3 py-2">
        <button type="button" className="quiet flex items-center gap-2 px-2 text-sm" onClick={onSettings}>
          <Gear />
          {text.settings.title}
        </button>
      </div>
      {deleting && (
        <DeleteDialog
          chat={deleting}
          onClose={() => setDeleting(null)}
          onDeleted={() => {
            if (deleting.id === current) show(null, "replace");
          }}
        />
      )}
    </nav>
  );
}

/** Loads more chats when it is scrolled into view, or pressed. */
function MoreButton() {
  const button = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    const observer = new IntersectionObserver((entries) => {
      if (entries.some((entry) => entry.isIntersecting)) void more();
    });
    if (button.current) observer.observe(button.current);
    return () => observer.disconnect();
  }, []);
  return (
    <button ref={button} type="button" className="quiet mx-1 mt-2 px-2 text-sm" onClick={() => void more()}>
      {text.sidebar.more}
    </button>
  );
}

function Trouble({ children }: { children: ReactNode }) {
  return (
    <p role="alert" className="px-3 py-2 text-sm text-accent">
      {children}
    </p>
  );
}

interface RowProps {
  chat: ChatObject;
  isCurrent: boolean;
  onChoose: () => void;
  onDelete: () => void;
}

function Row({ chat, isCurrent, onChoose, onDelete }: RowProps) {
  const [isRenaming, setRenaming] = useState(false);
  const title = chat.title || text.untitled;
  if (isRenaming)
    return (
      <li>
        <Rename chat={chat} onDone={() => setRenaming(false)} />
      </li>
    );
  return (
    <li className={`group/row flex items-center rounded-lg ${isCurrent ? "bg-line/60" : "hover:bg-line/40"}`}>
      <button
        type="button"
        className="min-w-0 grow truncate rounded-lg px-3 py-1.5 text-left text-sm"
        aria-current={isCurrent ? "page" : undefined}
        onClick={onChoose}
        onDoubleClick={() => setRenaming(true)}
      >
        {title}
        {chat.running !== null && (
          <span className="breathes ml-2 text-xs text-accent">{text.sidebar.running}</span>
        )}
      </button>
      <div className="opacity-0 group-focus-within/row:opacity-100 group-hover/row:opacity-100 pointer-coarse:opacity-100">
        <Menu
          label={text.sidebar.options(title)}
          icon={<Dots />}
          choices={[
            { label: text.chat.rename, onChoose: () => setRenaming(true) },
            {
              label: chat.pinned ? text.chat.unpin : text.chat.pin,
              onChoose: () => void change(chat.id, { pinned: !chat.pinned }),
            },
            { label: text.chat.delete, onChoose: onDelete, isDangerous: true },
          ]}
        />
      </div>
    </li>
  );
}

function Rename({ chat, onDone }: { chat: ChatObject; onDone: () => void }) {
  const [title, setTitle] = useState(chat.title ?? "");
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current?.select(), []);
  return (
    <form
      className="px-1 py-0.5"
      onSubmit={async (event) => {
        event.preventDefault();
        if (title.trim() !== "") await change(chat.id, { title: title.trim() });
        onDone();
      }}
    >
      <input
        ref={field}
        className="field py-1 text-sm"
        maxLength={200}
        aria-label={text.chat.renameLabel}
        value={title}
        onChange={(event) => setTitle(event.target.value)}
        onBlur={onDone}
        onKeyDown={(event) => {
          if (event.key === "Escape") onDone();
        }}
      />
    </form>
  );
}

interface DeleteProps {
  chat: ChatObject;
  onClose: () => void;
  onDeleted: () => void;
}

export function DeleteDialog({ chat, onClose, onDeleted }: DeleteProps) {
  return (
    <Dialog title={text.chat.deleteSure(chat.title || text.untitled)} onClose={onClose} isNarrow>
      <p className="text-muted">{text.chat.deleteWhy}</p>
      <div className="mt-5 flex justify-end gap-2">
        <button type="button" className="firm" onClick={onClose}>
          {text.answer.cancel}
        </button>
        <button
          type="button"
          className="firm main"
          onClick={async () => {
            if (await remove(chat.id)) onDeleted();
            onClose();
          }}
        >
          {text.chat.delete}
        </button>
      </div>
    </Dialog>
  );
}

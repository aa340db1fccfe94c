/** Buttons, menus and dialogs that the whole app shares. */

import { type KeyboardEvent, type ReactNode, useEffect, useId, useRef, useState } from "react";
import { Check, Copy, Cross } from "./icons";
import { text } from "./text";

interface IconButtonProps {
  label: string;
  onClick: () => void;
  children: ReactNode;
  pressed?: boolean;
  disabled?: boolean;
  className?: string;
}

export function IconButton({ label, onClick, children, pressed, disabled, className = "" }: IconButtonProps) {
  return (
    <button
      type="button"
      className={`quiet disabled:opacity-40 ${className}`}
      aria-label={label}
      title={label}
      aria-pressed={pressed}
      disabled={disabled}
      onClick={onClick}
    >
      {children}
    </button>
  );
}

export function CopyButton({ label, content }: { label: string; content: () => string }) {
  const [isDone, setDone] = useState(false);
  useEffect(() => {
    if (!isDone) return;
    const timer = setTimeout(() => setDone(false), 1500);
    return () => clearTimeout(timer);
  }, [isDone]);
  const copy = async () => {
    await toClipboard(content());
    setDone(true);
  };
  return (
    <IconButton label={isDone ? text.answer.copied : label} onClick={copy}>
      {isDone ? <Check /> : <Copy />}
    </IconButton>
  );
}

/** Browsers have a clipboard for pages of this machine and of https alone; elsewhere a selection is copied. */
export async function toClipboard(words: string): Promise<void> {
  if (window.isSecureContext) {
    await navigator.clipboard.writeText(words);
    return;
  }
  const copied = (event: globalThis.ClipboardEvent) => {
    event.preventDefault();
    event.clipboardData?.setData("text/plain", words);
  };
  document.addEventListener("copy", copied, { once: true });
  document.execCommand("copy");
}

export interface Choice {
  label: string;
  onChoose: () => void;
  isDangerous?: boolean;
}

export function Menu({ label, icon, choices }: { label: string; icon: ReactNode; choices: Choice[] }) {
  const [isOpen, setOpen] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  const items = () => [...(box.current?.querySelectorAll<HTMLElement>('[role="menuitem"]') ?? [])];
  useEffect(() => {
    if (isOpen) box.current?.querySelector<HTMLElement>('[role="menuitem"]')?.focus();
  }, [isOpen]);
  const onKeyDown = (event: KeyboardEvent) => {
    if (!isOpen) return;
    const at = items().indexOf(document.activeElement as HTMLElement);
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step !== 0) {
      event.preventDefault();
      items()
        .at((at + step) % items().length)
        ?.focus();
    } else if (event.key === "Escape") {
      event.stopPropagation();
      setOpen(false);
      button.current?.focus();
    }
  };
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: it only listens to the keys of what is inside
    <div
      ref={box}
      className="relative"
      onKeyDown={onKeyDown}
      onBlur={(event) => {
        if (!event.currentTarget.contains(event.relatedTarget)) setOpen(false);
      }}
    >
      <button
        ref={button}
        type="button"
        className="quiet"
        aria-label={label}
        title={label}
        aria-haspopup="menu"
        aria-expanded={isOpen}
        onClick={() => setOpen(!isOpen)}
      >
        {icon}
      </button>
      {isOpen && (
        <div
          role="menu"
          aria-label={label}
          className="absolute top-full right-0 z-20 mt-1 min-w-44 rounded-lg border border-line bg-paper py-1 shadow-lg"
        >
          {choices.map((choice) => (
            <button
              key={choice.label}
              type="button"
              role="menuitem"
              tabIndex={-1}
              className={`block w-full px-3 py-1.5 text-left text-sm hover:bg-panel focus:bg-panel focus:outline-none ${choice.isDangerous ? "text-accent" : ""}`}
              onClick={() => {
                setOpen(false);
                choice.onChoose();
              }}
            >
              {choice.label}
            </button>
          ))}
        </div>
      )}
    </div>
  );
}

interface DialogProps {
  title: string;
  onClose: () => void;
  children: ReactNode;
  isNarrow?: boolean;
}

export function Dialog({ title, onClose, children, isNarrow }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const shown = dialog.current;
    shown?.showModal();
    return () => shown?.close();
  }, []);
  return (
    <dialog
      ref={dialog}
      aria-labelledby={id}
      onCancel={onClose}
      className={`m-auto max-h-[90dvh] w-[calc(100%-2rem)] overflow-y-auto rounded-xl border border-line bg-paper p-5 text-ink shadow-xl ${isNarrow ? "max-w-md" : "max-w-xl"}`}
    >
      <header className="mb-4 flex items-center justify-between">
        <h2 id={id} className="font-serif text-lg font-semibold">
          {title}
        </h2>
        <IconButton label={text.settings.close} onClick={onClose}>
          <Cross />
        </IconButton>
      </header>
      {children}
    </dialog>
  );
}

/** Says something to those who hear the page. */
export function Announcement({ children }: { children: string }) {
  return (
    <p role="status" className="sr-only">
      {children}
    </p>
  );
}

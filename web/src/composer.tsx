/** Where a message is written: words, files, who answers. */

import {
  type ClipboardEvent,
  type DragEvent,
  type KeyboardEvent,
  useEffect,
  useLayoutEffect,
  useRef,
  useState,
} from "react";
import { IconButton } from "./controls";
import type { Outgoing } from "./conversation";
import { draft, keepDraft } from "./drafts";
import { short } from "./figures";
import { type Attached, attached, kindOf, TooLarge } from "./files";
import { Clip, Cross, Stop, Up } from "./icons";
import { EffortPicker, ModelPicker } from "./model_picker";
import { modelOf, models, takes } from "./models";
import { useObservable } from "./observable";
import { useSettings } from "./settings";
import { text } from "./text";

interface ComposerProps {
  chat: string | null;
  isRunning: boolean;
  queue: Outgoing[];
  /** What was not sent after all: the answer was stopped before, or the gateway was away. */
  returned: Outgoing[];
  used: number | null;
  onSend: (outgoing: Outgoing) => void;
  onStop: () => void;
  onUnqueue: (at: number) => void;
  onTakenBack: () => void;
  onEditLast: () => void;
}

export function Composer(props: ComposerProps) {
  const { chat, isRunning, queue, returned, used, onSend, onStop, onUnqueue, onTakenBack, onEditLast } =
    props;
  const [words, setWords] = useState(() => draft(chat));
  const [files, setFiles] = useState<Attached[]>([]);
  const [problem, setProblem] = useState<string | null>(null);
  const [isOver, setOver] = useState(false);
  const field = useRef<HTMLTextAreaElement>(null);
  const { models: known } = useObservable(models);
  const { model: chosen } = useSettings();
  const model = modelOf(known, chosen);
  const refused = files.find((file) => !takes(model, file.mediaType));
  const canSend = (words.trim() !== "" || files.length > 0) && refused === undefined;

  useEffect(() => field.current?.focus(), []);
  useLayoutEffect(() => {
    const area = field.current;
    if (area === null) return;
    area.style.height = "auto";
    area.style.height = words === "" ? "" : `${area.scrollHeight}px`;
  }, [words]);

  const change = (changed: string) => {
    setWords(changed);
    keepDraft(chat, changed);
  };
  // biome-ignore lint/correctness/useExhaustiveDependencies: what comes back comes once
  useEffect(() => {
    if (returned.length === 0) return;
    change([...returned.map((one) => one.text), words].filter((one) => one !== "").join("\n\n"));
    setFiles((before) => [...returned.flatMap((one) => one.files), ...before]);
    onTakenBack();
  }, [returned]);
  const add = async (given: Iterable<File>) => {
    setProblem(null);
    for (const file of given) {
      try {
        const read = await attached(file);
        setFiles((before) => [...before, read]);
      } catch (error) {
        setProblem(error instanceof TooLarge ? error.message : String(error));
      }
    }
  };
  const send = () => {
    if (!canSend) return;
    onSend({ text: words.trim(), files });
    change("");
    setFiles([]);
    setProblem(null);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Enter" && !event.shiftKey && !event.nativeEvent.isComposing) {
      event.preventDefault();
      send();
    } else if (event.key === "ArrowUp" && words === "") {
      event.preventDefault();
      onEditLast();
    }
  };
  const onPaste = (event: ClipboardEvent) => {
    if (event.clipboardData.files.length === 0) return;
    event.preventDefault();
    void add(event.clipboardData.files);
  };
  const onDrop = (event: DragEvent) => {
    event.preventDefault();
    setOver(false);
    void add(event.dataTransfer.files);
  };

  return (
    <section
      aria-label={text.composer.label}
      className="mx-auto w-full max-w-[44rem] px-4 pb-[max(0.75rem,env(safe-area-inset-bottom))]"
      onDragOver={(event) => {
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={onDrop}
    >
      <Queue queue={queue} onUnqueue={onUnqueue} />
      <div
        className={`rounded-xl border bg-paper transition-colors focus-within:border-muted ${isOver ? "border-accent bg-wash" : "border-line"}`}
      >
        <Attachments files={files} onRemove={(at) => setFiles(files.filter((_, n) => n !== at))} />
        {isOver && <p className="px-4 pt-3 text-sm text-accent">{text.composer.drop}</p>}
        {(refused || problem) && (
          <p role="alert" className="px-4 pt-3 text-sm text-accent">
            {refused ? text.composer.refused(model?.id ?? "", kindOf(refused.mediaType)) : problem}
          </p>
        )}
        <textarea
          ref={field}
          rows={1}
          className="block max-h-[40dvh] w-full resize-none bg-transparent px-4 pt-3.5 pb-1 placeholder:text-muted focus:outline-none"
          aria-label={text.composer.label}
          placeholder={isRunning ? text.composer.placeholderRunning : text.composer.placeholder}
          value={words}
          onChange={(event) => change(event.target.value)}
          onKeyDown={onKeyDown}
          onPaste={onPaste}
        />
        <div className="flex items-center gap-0.5 p-1.5">
          <AttachButton onFiles={add} />
          <ModelPicker />
          <EffortPicker />
          <span className="grow" />
          <ContextMeter used={used} window={model?.window ?? null} />
          {isRunning && (
            <button
              type="button"
              className="rounded-lg border border-line p-1.5 hover:border-muted"
              aria-label={text.composer.stop}
              title={text.composer.stop}
              onClick={onStop}
            >
              <Stop />
            </button>
          )}
          {(!isRunning || canSend) && (
            <button
              type="button"
              className="ml-1 rounded-lg bg-accent p-1.5 text-paper disabled:bg-panel disabled:text-muted"
              aria-label={isRunning ? text.composer.queue : text.composer.send}
              title={isRunning ? text.composer.queue : text.composer.send}
              disabled={!canSend}
              onClick={send}
            >
              <Up />
            </button>
          )}
        </div>
      </div>
    </section>
  );
}

function AttachButton({ onFiles }: { onFiles: (files: Iterable<File>) => void }) {
  const input = useRef<HTMLInputElement>(null);
  return (
    <>
      <input
        ref={input}
        type="file"
        multiple
        hidden
        aria-label={text.composer.attach}
        onChange={(event) => {
          onFiles([...(event.target.files ?? [])]);
          event.target.value = "";
        }}
      />
      <IconButton label={text.composer.attach} onClick={() => input.current?.click()}>
        <Clip />
      </IconButton>
    </>
  );
}

function Attachments({ files, onRemove }: { files: Attached[]; onRemove: (at: number) => void }) {
  if (files.length === 0) return null;
  return (
    <ul className="flex flex-wrap gap-2 px-4 pt-3">
      {files.map((file, n) => (
        <li key={n} className="flex items-center gap-2 rounded-md border border-line py-1 pr-1 pl-2 text-sm">
          {file.mediaType.startsWith("image/") && (
            <img src={file.url} alt="" className="h-10 w-10 rounded object-cover" />
          )}
          <span className="max-w-48 truncate">{file.filename}</span>
          <span className="figures">{kindOf(file.mediaType)}</span>
          <IconButton label={text.composer.remove(file.filename)} onClick={() => onRemove(n)}>
            <Cross />
          </IconButton>
        </li>
      ))}
    </ul>
  );
}

function Queue({ queue, onUnqueue }: { queue: Outgoing[]; onUnqueue: (at: number) => void }) {
  if (queue.length === 0) return null;
  return (
    <ol className="mb-2 space-y-1">
      {queue.map((one, n) => (
        <li
          key={n}
          className="flex items-center gap-3 rounded-md border border-dashed border-line py-1 pr-1 pl-3 text-sm"
        >
          <span className="label">{text.composer.queued}</span>
          <span className="grow truncate">{one.text || one.files[0]?.filename}</span>
          <IconButton label={text.composer.unqueue} onClick={() => onUnqueue(n)}>
            <Cross />
          </IconButton>
        </li>
      ))}
    </ol>
  );
}

function ContextMeter({ used, window }: { used: number | null; window: number | null }) {
  if (used === null) return null;
  if (window === null)
    return (
      <span
        className="figures mr-1 hidden sm:inline"
        title={text.composer.contextUnknown(used.toLocaleString())}
      >
        {short(used)}
      </span>
    );
  const share = Math.min(1, used / window);
  const label = text.composer.context(used.toLocaleString(), window.toLocaleString());
  return (
    <span className="mr-2 hidden items-center gap-2 sm:flex" title={label}>
      <meter className="sr-only" aria-label={label} min={0} max={window} value={used} />
      <span className="figures" aria-hidden="true">
        {short(used)}/{short(window)}
      </span>
      <svg width="32" height="4" aria-hidden="true">
        <rect width="32" height="4" rx="2" fill="var(--line)" />
        <rect
          width={Math.max(2, 32 * share)}
          height="4"
          rx="2"
          fill={share > 0.9 ? "var(--accent)" : "var(--muted)"}
        />
      </svg>
    </span>
  );
}

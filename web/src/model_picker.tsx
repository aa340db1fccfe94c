/** Which model answers, and how hard it thinks. */

import { type KeyboardEvent, useEffect, useId, useRef, useState } from "react";
import { money, short } from "./figures";
import { effortsOf, type Model, modelOf, models } from "./models";
import { useObservable } from "./observable";
import { settings, useSettings } from "./settings";
import { text } from "./text";

export function ModelPicker() {
  const { models: known } = useObservable(models);
  const { model: chosen } = useSettings();
  const shown = chosen ?? known[0]?.id ?? text.model.default;
  const [isOpen, setOpen] = useState(false);
  const button = useRef<HTMLButtonElement>(null);
  const close = () => {
    setOpen(false);
    button.current?.focus();
  };
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: it only notices when the focus leaves what is inside
    <div
      className="relative min-w-0"
      onBlur={(event) => {
        if (!event.currentTarget.contains(event.relatedTarget)) setOpen(false);
      }}
    >
      <button
        ref={button}
        type="button"
        className="quiet max-w-full truncate px-2 font-mono text-[0.8125rem]"
        aria-haspopup="listbox"
        aria-expanded={isOpen}
        aria-label={`${text.model.label}: ${shown}`}
        onClick={() => setOpen(!isOpen)}
      >
        {shown}
      </button>
      {isOpen && <List known={known} chosen={chosen ?? known[0]?.id} onClose={close} />}
    </div>
  );
}

function List({
  known,
  chosen,
  onClose,
}: {
  known: Model[];
  chosen: string | undefined;
  onClose: () => void;
}) {
  const [words, setWords] = useState("");
  const found = known.filter((model) => model.id.toLowerCase().includes(words.toLowerCase()));
  const [at, setAt] = useState(
    Math.max(
      0,
      found.findIndex((model) => model.id === chosen),
    ),
  );
  const list = useRef<HTMLDivElement>(null);
  const field = useRef<HTMLInputElement>(null);
  const id = useId();
  useEffect(() => field.current?.focus(), []);
  useEffect(() => {
    list.current?.children[at]?.scrollIntoView({ block: "nearest" });
  }, [at]);
  const choose = (model: Model | undefined) => {
    if (model) settings.change({ model: model.id, effort: null });
    onClose();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step !== 0) setAt(Math.min(Math.max(at + step, 0), found.length - 1));
    else if (event.key === "Enter") choose(found[at]);
    else if (event.key === "Escape") onClose();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div className="absolute bottom-full left-0 z-20 mb-2 w-[min(26rem,calc(100vw-2.5rem))] rounded-xl border border-line bg-paper p-2 shadow-lg">
      <input
        ref={field}
        className="field"
        role="combobox"
        aria-expanded="true"
        aria-controls={id}
        aria-activedescendant={`${id}-${at}`}
        aria-label={text.model.search}
        placeholder={text.model.search}
        value={words}
        onChange={(event) => {
          setWords(event.target.value);
          setAt(0);
        }}
        onKeyDown={onKeyDown}
      />
      {found.length === 0 && <p className="p-2 text-sm text-muted">{text.model.none}</p>}
      <div
        ref={list}
        id={id}
        role="listbox"
        aria-label={text.model.label}
        className="mt-1 max-h-72 overflow-y-auto"
      >
        {found.map((model, n) => (
          // biome-ignore lint/a11y/useFocusableInteractive: the focus stays in the field, which names the active one
          // biome-ignore lint/a11y/useKeyWithClickEvents: the keys are handled by the field
          <div
            key={model.id}
            id={`${id}-${n}`}
            role="option"
            aria-selected={model.id === chosen}
            className={`cursor-pointer rounded-md px-2 py-1.5 ${n === at ? "bg-panel" : ""}`}
            onMouseEnter={() => setAt(n)}
            onMouseDown={(event) => event.preventDefault()}
            onClick={() => choose(model)}
          >
            <div
              className={`truncate font-mono text-[0.8125rem] ${model.id === chosen ? "font-semibold text-accent" : ""}`}
            >
              {model.id}
            </div>
            <Facts model={model} />
          </div>
        ))}
      </div>
    </div>
  );
}

function Facts({ model }: { model: Model }) {
  const { price, window, inputs } = model;
  const facts = [
    model.owner,
    window !== null && text.model.window(short(window)),
    inputs !== null && inputs.length > 1 && inputs.join(", "),
    model.tools.length > 0 && model.tools.join(", "),
    price !== null &&
      text.model.price(money(price.input, price.currency), money(price.output, price.currency)),
  ].filter((fact): fact is string => Boolean(fact));
  return (
    <div className="text-xs text-muted">
      {facts.map((fact, n) => (
        <span key={fact}>
          {n > 0 && " · "}
          {fact}
        </span>
      ))}
    </div>
  );
}

export function EffortPicker() {
  const { models: known } = useObservable(models);
  const { model: chosen, effort } = useSettings();
  const efforts = effortsOf(modelOf(known, chosen));
  if (efforts.length === 0) return null;
  return (
    <select
      className="quiet max-w-40 appearance-none bg-transparent px-2 text-[0.8125rem]"
      aria-label={text.model.effort}
      value={effort ?? ""}
      onChange={(event) => settings.change({ effort: event.target.value || null })}
    >
      <option value="">{text.model.effortDefault}</option>
      {efforts.map((name) => (
        <option key={name} value={name}>
          {text.model.effortOf(name)}
        </option>
      ))}
    </select>
  );
}

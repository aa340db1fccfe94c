/** A JSON value as a tree whose branches fold. Only what is open is drawn, and of long lists only the beginning. */

import { useState } from "react";
import { text } from "./text";

const AT_ONCE = 200;

function isBranch(value: unknown): value is Record<string, unknown> | unknown[] {
  return value !== null && typeof value === "object" && Object.keys(value).length > 0;
}

function leaf(value: unknown): { shown: string; colour: string } {
  if (typeof value === "string") return { shown: JSON.stringify(value), colour: "text-(--string)" };
  if (typeof value === "number" || typeof value === "boolean")
    return { shown: String(value), colour: "text-(--number)" };
  return { shown: JSON.stringify(value) ?? "undefined", colour: "text-muted" };
}

interface TreeProps {
  value: unknown;
  name?: string;
  depth?: number;
}

export function JsonTree({ value, name, depth = 0 }: TreeProps) {
  const label = name === undefined ? null : <span className="text-(--name)">{name}: </span>;
  if (isBranch(value)) return <Branch value={value} label={label} depth={depth} />;
  const { shown, colour } = leaf(value);
  return (
    <div className="pl-4 break-words">
      {label}
      <span className={colour}>{shown}</span>
    </div>
  );
}

interface BranchProps {
  value: Record<string, unknown> | unknown[];
  label: React.ReactNode;
  depth: number;
}

function Branch({ value, label, depth }: BranchProps) {
  const [isOpen, setOpen] = useState(depth < 2);
  const [most, setMost] = useState(AT_ONCE);
  const entries = Object.entries(value);
  const kind = Array.isArray(value) ? `[${entries.length}]` : `{${entries.length}}`;
  return (
    <details
      open={isOpen}
      onToggle={(event) => {
        // Those of the branches within come here too.
        if (event.target === event.currentTarget) setOpen(event.currentTarget.open);
      }}
      className="pl-4"
    >
      <summary className="-ml-4 rounded">
        <span className="inline-block w-4 text-muted" aria-hidden="true">
          {isOpen ? "−" : "+"}
        </span>
        {label}
        <span className="text-muted">{kind}</span>
      </summary>
      {isOpen &&
        entries
          .slice(0, most)
          .map(([key, inner]) => <JsonTree key={key} name={key} value={inner} depth={depth + 1} />)}
      {isOpen && entries.length > most && (
        <button type="button" className="quiet text-xs" onClick={() => setMost(most + 10 * AT_ONCE)}>
          {text.json.more(entries.length - most)}
        </button>
      )}
    </details>
  );
}

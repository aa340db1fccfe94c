/** A JSON value as a tree whose branches fold. */

function isBranch(value: unknown): value is Record<string, unknown> | unknown[] {
  return value !== null && typeof value === "object" && Object.keys(value).length > 0;
}

function leaf(value: unknown): { shown: string; colour: string } {
  if (typeof value === "string") return { shown: JSON.stringify(value), colour: "text-(--string)" };
  if (typeof value === "number" || typeof value === "boolean")
    return { shown: String(value), colour: "text-(--number)" };
  return { shown: JSON.stringify(value) ?? "undefined", colour: "text-muted" };
}

export function JsonTree({ value, name, depth = 0 }: { value: unknown; name?: string; depth?: number }) {
  const label = name === undefined ? null : <span className="text-(--name)">{name}: </span>;
  if (!isBranch(value)) {
    const { shown, colour } = leaf(value);
    return (
      <div className="pl-4 break-words">
        {label}
        <span className={colour}>{shown}</span>
      </div>
    );
  }
  const entries = Object.entries(value);
  const kind = Array.isArray(value) ? `[${entries.length}]` : `{${entries.length}}`;
  return (
    <details open={depth < 2} className="group pl-4">
      <summary className="-ml-4 rounded">
        <span className="inline-block w-4 text-muted group-open:hidden" aria-hidden="true">
          +
        </span>
        <span className="hidden w-4 text-muted group-open:inline-block" aria-hidden="true">
          −
        </span>
        {label}
        <span className="text-muted">{kind}</span>
      </summary>
      {entries.map(([key, inner]) => (
        <JsonTree key={key} name={key} value={inner} depth={depth + 1} />
      ))}
    </details>
  );
}

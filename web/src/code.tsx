/** A block of code: its language, a way to copy it, and colours once it has stood still for a moment. */

import { useEffect, useState } from "react";
import { CopyButton } from "./controls";
import { text } from "./text";
import { trusted } from "./trusted";

const STILL = 150;
const TOO_LONG = 50_000;

export function CodeBlock({ code, language }: { code: string; language: string }) {
  const name = language.trim().split(/\s/)[0] ?? "";
  const [drawn, setDrawn] = useState<{ code: string; html: string } | null>(null);
  useEffect(() => {
    if (name === "" || code.length > TOO_LONG) return;
    const timer = setTimeout(async () => {
      const loaded = await import("./highlight").catch(() => null); // the gateway may be away
      const html = loaded?.highlighted(code, name.toLowerCase()) ?? null;
      if (html !== null) setDrawn({ code, html });
    }, STILL);
    return () => clearTimeout(timer);
  }, [code, name]);
  return (
    <figure className="overflow-hidden rounded-md border border-line bg-panel">
      <figcaption className="flex items-center justify-between border-b border-line py-0.5 pr-1 pl-3">
        <span className="figures">{name || text.code.plain}</span>
        <CopyButton label={text.code.copy} content={() => code} />
      </figcaption>
      <pre className="overflow-x-auto px-3 py-2.5 font-mono text-[0.8125rem] leading-relaxed" tabIndex={0}>
        {drawn?.code === code ? (
          // biome-ignore lint/security/noDangerouslySetInnerHtml: the highlighter escapes all of the code
          <code dangerouslySetInnerHTML={trusted(drawn.html)} />
        ) : (
          <code>{code}</code>
        )}
      </pre>
    </figure>
  );
}

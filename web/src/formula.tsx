/** A formula as MathML, which browsers draw themselves: no fonts and no styles are loaded. */

import katex from "katex";
import { trusted } from "./trusted";

export default function Formula({ source, isBlock }: { source: string; isBlock: boolean }) {
  const drawn = draw(source, isBlock);
  if (drawn === null) return <code>{source}</code>;
  const Tag = isBlock ? "div" : "span";
  return (
    <Tag
      className={isBlock ? "overflow-x-auto text-center text-lg" : undefined}
      // biome-ignore lint/security/noDangerouslySetInnerHtml: MathML of katex, which escapes its source
      dangerouslySetInnerHTML={trusted(drawn)}
    />
  );
}

/** Styles in attributes, which the page's policy refuses, each with an error. In text, katex escapes the quotes. */
const STYLES = / style="[^"]*"/g;

/** Nothing, where it is nested deeper than the stack: katex answers other mistakes itself. */
function draw(source: string, isBlock: boolean): string | null {
  try {
    const drawn = katex.renderToString(source, {
      output: "mathml",
      displayMode: isBlock,
      throwOnError: false,
      strict: "ignore",
      trust: false,
      maxExpand: 100,
    });
    return drawn.replace(STYLES, "");
  } catch {
    return null;
  }
}

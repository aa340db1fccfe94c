/** A formula as MathML, which browsers draw themselves: no fonts and no styles are loaded. */

import katex from "katex";
import { trusted } from "./trusted";

export default function Formula({ source, isBlock }: { source: string; isBlock: boolean }) {
  const drawn = katex.renderToString(source, {
    output: "mathml",
    displayMode: isBlock,
    throwOnError: false,
    strict: "ignore",
    trust: false,
    maxExpand: 100,
  });
  const Tag = isBlock ? "div" : "span";
  return (
    <Tag
      className={isBlock ? "overflow-x-auto text-center text-lg" : undefined}
      // biome-ignore lint/security/noDangerouslySetInnerHtml: MathML of katex, which escapes its source
      dangerouslySetInnerHTML={trusted(drawn)}
    />
  );
}

/** A chat as a file: what is on the screen as Markdown, or the whole tree as JSON. */

import { type Message, plainText } from "./messages";
import type { ChatObject, TreeNode } from "./protocol";
import { text } from "./text";

export function asMarkdown(chat: ChatObject, messages: readonly Message[]): string {
  const voices = messages.map((message) => {
    const voice = message.role === "user" ? text.you : (message.metadata?.model ?? text.name);
    return `## ${voice}\n\n${plainText(message)}\n`;
  });
  return [`# ${chat.title ?? text.untitled}\n`, ...voices].join("\n");
}

export function asJson(chat: ChatObject, nodes: Iterable<TreeNode>): string {
  return `${JSON.stringify({ ...chat, responses: [...nodes] }, null, 2)}\n`;
}

export function download(name: string, type: string, content: string): void {
  const url = URL.createObjectURL(new Blob([content], { type }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  URL.revokeObjectURL(url);
}

export function fileName(title: string | null): string {
  const plain = (title ?? text.untitled).toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "-");
  return plain.replace(/^-|-$/g, "").slice(0, 60) || "chat";
}

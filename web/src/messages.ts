/** A stored response as the messages that the AI SDK would have made of its stream: both are shown by the same code. */

import type { UIMessage } from "ai";
import {
  type Annotation,
  type Content,
  type Failure,
  type Item,
  inputItems,
  type Status,
  type TreeNode,
  textOf,
  type Usage,
} from "./protocol";

export interface Metadata {
  responseId?: string;
  model?: string;
  status?: Status;
  usage?: { inputTokens: number; outputTokens: number; cachedInputTokens?: number; reasoningTokens?: number };
  failure?: Failure | null;
  incomplete?: string | null;
  createdAt?: number;
  receipts?: number;
}

export type Message = UIMessage<Metadata>;
export type Part = Message["parts"][number];

const TOOL_OUTPUTS = new Set(["function_call_output", "custom_tool_call_output"]);

export function messagesOf(path: readonly TreeNode[]): Message[] {
  const outputs = new Map<string, Item>();
  for (const node of path) {
    for (const item of [...inputItems(node), ...node.output]) {
      if (TOOL_OUTPUTS.has(item.type) && item.call_id !== undefined) outputs.set(item.call_id, item);
    }
  }
  return path.flatMap((node) => [...asked(node), answered(node, outputs)]);
}

/** The question of a response, under the id of its item: by it the gateway knows which one is asked otherwise. */
export function asked(node: TreeNode): Message[] {
  const said = inputItems(node).filter((item) => item.type === "message" && item.role === "user");
  const parts = said.flatMap((item) => userParts(item.content));
  return parts.length === 0 ? [] : [{ id: said.at(-1)?.id ?? `${node.id}:input`, role: "user", parts }];
}

function userParts(content: string | Content[] | undefined): Part[] {
  if (typeof content === "string") return [{ type: "text", text: content }];
  return (content ?? []).flatMap((part): Part[] => {
    if (part.text !== undefined) return [{ type: "text", text: part.text }];
    const url = part.image_url ?? part.file_data ?? part.file_url;
    if (url === undefined) return [];
    return [{ type: "file", url, mediaType: mediaType(url, part), filename: part.filename }];
  });
}

function mediaType(url: string, part: Content): string {
  const named = /^data:([^;,]+)/.exec(url)?.[1];
  return named ?? (part.type === "input_image" ? "image/*" : "application/octet-stream");
}

export function usageOf(usage: Usage | null | undefined): Metadata["usage"] {
  if (usage === null || usage === undefined) return undefined;
  return {
    inputTokens: usage.input_tokens,
    outputTokens: usage.output_tokens,
    cachedInputTokens: usage.input_tokens_details?.cached_tokens ?? 0,
    reasoningTokens: usage.output_tokens_details?.reasoning_tokens ?? 0,
  };
}

export function answered(node: TreeNode, outputs: ReadonlyMap<string, Item>): Message {
  const metadata: Metadata = {
    responseId: node.id,
    model: node.model,
    status: node.status,
    usage: usageOf(node.usage),
    failure: node.error,
    incomplete: node.incomplete_details?.reason ?? null,
    createdAt: node.created_at,
  };
  const parts = node.output.flatMap((item) => itemParts(item, outputs));
  return { id: node.id, role: "assistant", metadata, parts };
}

function itemParts(item: Item, outputs: ReadonlyMap<string, Item>): Part[] {
  switch (item.type) {
    case "message":
      return messageParts(item);
    case "reasoning":
      return reasoningParts(item);
    case "function_call":
    case "custom_tool_call":
      return [callPart(item, outputs.get(item.call_id ?? ""))];
    default:
      if (TOOL_OUTPUTS.has(item.type)) return [];
      return [{ type: `data-${item.type}`, id: item.id, data: item }];
  }
}

function messageParts(item: Item): Part[] {
  if (typeof item.content === "string") return [{ type: "text", text: item.content, state: "done" }];
  return (item.content ?? []).flatMap((part, index): Part[] => {
    if (part.refusal !== undefined) return [{ type: "data-refusal", data: { text: part.refusal } }];
    const sources = (part.annotations ?? []).flatMap((one, n) => source(`${item.id}:${index}:${n}`, one));
    return [{ type: "text", text: part.text ?? "", state: "done" }, ...sources];
  });
}

export function source(id: string, annotation: Annotation): Part[] {
  if (annotation.url !== undefined)
    return [{ type: "source-url", sourceId: id, url: annotation.url, title: annotation.title }];
  const name = annotation.filename ?? annotation.file_id;
  if (name === undefined) return [];
  return [
    {
      type: "source-document",
      sourceId: id,
      mediaType: "application/octet-stream",
      title: name,
      filename: name,
    },
  ];
}

function reasoningParts(item: Item): Part[] {
  const content = Array.isArray(item.content) ? item.content : [];
  const said = [...(item.summary ?? []), ...content].filter((part) => part.text);
  return said.map((part) => ({ type: "reasoning", text: part.text ?? "", state: "done" }));
}

function callPart(item: Item, output: Item | undefined): Part {
  const call = {
    type: "dynamic-tool" as const,
    toolName: item.name ?? item.type,
    toolCallId: item.call_id ?? "",
  };
  const given = item.type === "custom_tool_call" ? item.input : parsed(item.arguments ?? "");
  if (output === undefined) return { ...call, state: "input-available", input: given };
  if (output.status === "incomplete" || output.status === "failed")
    return { ...call, state: "output-error", input: given, errorText: textOf(output.output) };
  return { ...call, state: "output-available", input: given, output: parsed(textOf(output.output)) };
}

export function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

export function plainText(message: Message): string {
  return message.parts
    .map((part) => (part.type === "text" ? part.text : ""))
    .join("\n\n")
    .trim();
}

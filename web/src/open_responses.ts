/** Open Responses events as the chunks of a UI message stream: the other protocol, the same screen. */

import type { UIMessageChunk } from "ai";
import { type Metadata, parsed, source, usageOf } from "./messages";
import { type Annotation, type Failure, type Item, type TreeNode, textOf } from "./protocol";

export interface ResponseEvent {
  type: string;
  sequence_number: number;
  item_id?: string;
  output_index?: number;
  content_index?: number;
  summary_index?: number;
  annotation_index?: number;
  delta?: string;
  arguments?: string;
  input?: string;
  item?: Item;
  part?: { type: string };
  annotation?: Annotation;
  response?: TreeNode;
  error?: Failure;
  message?: string;
  code?: string;
}

type Chunk = UIMessageChunk<Metadata>;

export class Chunks {
  private readonly calls = new Map<string, { toolCallId: string; toolName: string; dynamic: true }>();
  private readonly open = new Map<string, "text" | "reasoning">();
  private hasFailed = false;

  of(event: ResponseEvent): Chunk[] {
    switch (event.type) {
      case "response.created":
        return this.begin(event.response);
      case "response.output_item.added":
        return this.added(event.item);
      case "response.output_item.done":
        return this.done(event.item);
      case "response.content_part.added":
        return this.start(place(event), event.part?.type === "reasoning_text" ? "reasoning" : "text");
      case "response.reasoning_summary_part.added":
        return this.start(place(event), "reasoning");
      case "response.output_text.delta":
      case "response.refusal.delta":
        return [{ type: "text-delta", id: place(event), delta: event.delta ?? "" }];
      case "response.reasoning.delta":
      case "response.reasoning_text.delta":
      case "response.reasoning_summary_text.delta":
        return [{ type: "reasoning-delta", id: place(event), delta: event.delta ?? "" }];
      case "response.output_text.done":
      case "response.refusal.done":
      case "response.reasoning.done":
      case "response.reasoning_text.done":
      case "response.reasoning_summary_text.done":
        return this.end(place(event));
      case "response.output_text.annotation.added":
        return event.annotation === undefined
          ? []
          : (source(`${place(event)}:${event.annotation_index ?? 0}`, event.annotation) as Chunk[]);
      default:
        return this.rest(event);
    }
  }

  private rest(event: ResponseEvent): Chunk[] {
    const call = this.calls.get(event.item_id ?? "");
    switch (event.type) {
      case "response.function_call_arguments.delta":
      case "response.custom_tool_call_input.delta":
        return call
          ? [{ type: "tool-input-delta", toolCallId: call.toolCallId, inputTextDelta: event.delta ?? "" }]
          : [];
      case "response.function_call_arguments.done":
        return call
          ? [{ type: "tool-input-available", ...call, input: parsed(event.arguments || "{}") }]
          : [];
      case "response.custom_tool_call_input.done":
        return call ? [{ type: "tool-input-available", ...call, input: event.input }] : [];
      case "error":
        this.hasFailed = true;
        return [{ type: "error", errorText: event.error?.message ?? event.message ?? "" }];
      case "response.completed":
      case "response.incomplete":
      case "response.failed":
        return this.finish(event.response);
      default:
        return [];
    }
  }

  private begin(response: TreeNode | undefined): Chunk[] {
    if (response === undefined) return [];
    const told: Metadata = { responseId: response.id, model: response.model };
    return [{ type: "start", messageId: response.id, messageMetadata: told }, { type: "start-step" }];
  }

  private added(item: Item | undefined): Chunk[] {
    if (item?.type !== "function_call" && item?.type !== "custom_tool_call") return [];
    const call = { toolCallId: item.call_id ?? "", toolName: item.name ?? "", dynamic: true as const };
    this.calls.set(item.id ?? "", call);
    return [{ type: "tool-input-start", ...call }];
  }

  private done(item: Item | undefined): Chunk[] {
    if (item === undefined) return [];
    switch (item.type) {
      case "message":
      case "reasoning":
      case "function_call":
      case "custom_tool_call":
        return [];
      case "function_call_output":
      case "custom_tool_call_output": {
        const told = { toolCallId: item.call_id ?? "", providerExecuted: true };
        return [{ type: "tool-output-available", ...told, output: parsed(textOf(item.output)) }];
      }
      default:
        return [{ type: `data-${item.type}`, id: item.id, data: item }];
    }
  }

  private start(id: string, kind: "text" | "reasoning"): Chunk[] {
    this.open.set(id, kind);
    return [{ type: `${kind}-start`, id }];
  }

  private end(id: string): Chunk[] {
    const kind = this.open.get(id);
    this.open.delete(id);
    return kind === undefined ? [] : [{ type: `${kind}-end`, id }];
  }

  private finish(response: TreeNode | undefined): Chunk[] {
    const made: Chunk[] = [...this.open.keys()].flatMap((id) => this.end(id));
    if (response?.status === "cancelled") return [...made, { type: "abort" }];
    if (response?.status === "failed" && !this.hasFailed)
      made.push({ type: "error", errorText: response.error?.message ?? "" });
    const messageMetadata: Metadata = { usage: usageOf(response?.usage) };
    return [...made, { type: "finish-step" }, { type: "finish", messageMetadata }];
  }
}

function place(event: ResponseEvent): string {
  const index =
    event.summary_index === undefined ? (event.content_index ?? 0) : `summary:${event.summary_index}`;
  return `${event.item_id}:${index}`;
}

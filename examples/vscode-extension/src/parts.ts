// VS Code's parts to JSON and back. The gateway does all the rest of the translation.

import * as vscode from "vscode";
import type { WirePart } from "./gateway";

// Thinking is a proposed part: it is shown where the editor has it.
type ThinkingPart = new (value: string, id?: string, metadata?: object) => vscode.LanguageModelResponsePart;
const thinking = (vscode as { LanguageModelThinkingPart?: ThinkingPart }).LanguageModelThinkingPart;

export function toJson(message: vscode.LanguageModelChatRequestMessage): object {
  return { role: message.role, content: message.content.map(partToJson), name: message.name };
}

function partToJson(part: unknown): unknown {
  if (part instanceof vscode.LanguageModelDataPart) {
    return { type: "data", mimeType: part.mimeType, data: Buffer.from(part.data).toString("base64") };
  }
  if (part instanceof vscode.LanguageModelTextPart) {
    return { type: "text", value: part.value };
  }
  if (part instanceof vscode.LanguageModelToolCallPart) {
    return { type: "toolCall", callId: part.callId, name: part.name, input: part.input };
  }
  if (part instanceof vscode.LanguageModelToolResultPart) {
    const { isError } = part as { isError?: boolean };
    return { type: "toolResult", callId: part.callId, content: part.content.map(partToJson), isError };
  }
  if (part instanceof vscode.LanguageModelPromptTsxPart) {
    return { type: "promptTsx", value: part.value };
  }
  if (thinking !== undefined && part instanceof thinking) {
    return { type: "thinking", ...(part as object) };
  }
  return part;
}

export function toPart(part: WirePart): vscode.LanguageModelResponsePart | undefined {
  switch (part.type) {
    case "text":
      return new vscode.LanguageModelTextPart(part.value);
    case "thinking":
      return thinking && new thinking(part.value, part.id, part.metadata);
    case "data":
      return new vscode.LanguageModelDataPart(Buffer.from(part.data, "base64"), part.mimeType);
    case "toolCall":
      return new vscode.LanguageModelToolCallPart(part.callId, part.name, part.input);
    case "toolResult": {
      const content = part.content.map((one) => new vscode.LanguageModelTextPart(one.value));
      return new vscode.LanguageModelToolResultPart(part.callId, content);
    }
  }
}

export function textOf(text: string | vscode.LanguageModelChatRequestMessage): string {
  if (typeof text === "string") {
    return text;
  }
  return text.content
    .map((part) => (part instanceof vscode.LanguageModelTextPart ? part.value : JSON.stringify(partToJson(part))))
    .join("");
}

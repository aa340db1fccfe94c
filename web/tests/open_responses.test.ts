import { expect, test } from "vitest";
import { messagesOf } from "../src/messages";
import { Chunks, type ResponseEvent } from "../src/open_responses";
import type { TreeNode } from "../src/protocol";
import { Decoder } from "../src/sse";

const RESPONSE = { id: "resp_1", model: "m", status: "in_progress", output: [] } as unknown as TreeNode;

function said(...given: Partial<ResponseEvent>[]): unknown[] {
  const chunks = new Chunks();
  return given.flatMap((event, n) => chunks.of({ sequence_number: n, ...event } as ResponseEvent));
}

test("the events of a text become the chunks of a message", () => {
  const place = { item_id: "msg_1", output_index: 0, content_index: 0 };
  expect(
    said(
      { type: "response.created", response: RESPONSE },
      { type: "response.content_part.added", part: { type: "output_text" }, ...place },
      { type: "response.output_text.delta", delta: "Hi", ...place },
      { type: "response.output_text.done", ...place },
      { type: "response.completed", response: { ...RESPONSE, status: "completed" } },
    ),
  ).toEqual([
    { type: "start", messageId: "resp_1", messageMetadata: { responseId: "resp_1", model: "m" } },
    { type: "start-step" },
    { type: "text-start", id: "msg_1:0" },
    { type: "text-delta", id: "msg_1:0", delta: "Hi" },
    { type: "text-end", id: "msg_1:0" },
    { type: "finish-step" },
    { type: "finish", messageMetadata: { usage: undefined } },
  ]);
});

test("an unfinished text is ended with its response, and a failure is told once", () => {
  const place = { item_id: "msg_1", content_index: 0 };
  const failed = { ...RESPONSE, status: "failed" as const, error: { message: "down" } };
  const types = said(
    { type: "response.content_part.added", part: { type: "output_text" }, ...place },
    { type: "error", error: { message: "down" } },
    { type: "response.failed", response: failed },
  ).map((chunk) => (chunk as { type: string }).type);
  expect(types).toEqual(["text-start", "error", "text-end", "finish-step", "finish"]);
});

test("a call and its output are one part, whether they are streamed or stored", () => {
  const call = { type: "function_call", id: "fc_1", call_id: "c1", name: "add", arguments: '{"a":1}' };
  const output = { type: "function_call_output", call_id: "c1", output: "2" };
  const node = { ...RESPONSE, input: [], output: [call, output] } as unknown as TreeNode;
  const part = messagesOf([node])[0]?.parts[0];
  expect(part).toMatchObject({ type: "dynamic-tool", state: "output-available", input: { a: 1 }, output: 2 });
  const streamed = said(
    { type: "response.output_item.added", item: { ...call, arguments: "" } },
    { type: "response.function_call_arguments.done", item_id: "fc_1", arguments: call.arguments },
    { type: "response.output_item.done", item: output },
  );
  expect(streamed.at(-1)).toMatchObject({ type: "tool-output-available", toolCallId: "c1", output: 2 });
});

test("server-sent events are read however they are cut", () => {
  const stream = ": comment\r\n\r\nevent: a\r\ndata: {\r\ndata: }\r\n\r\nid: 1\ndata:x\n\ndata: [DONE]\n\n";
  for (const size of [1, 2, 5, 100]) {
    const decoder = new Decoder();
    const found: string[] = [];
    for (let at = 0; at < stream.length; at += size)
      found.push(...decoder.feed(stream.slice(at, at + size)).map(({ data }) => data));
    expect(found).toEqual(["{\n}", "x", "[DONE]"]);
  }
});

/** The AI SDK's transport to `/api/v1/chat`: only what is new is sent, and either protocol is read. */

import { DefaultChatTransport, type UIMessageChunk } from "ai";
import { ask } from "./api";
import type { Message } from "./messages";
import { Chunks, type ResponseEvent } from "./open_responses";
import { events } from "./sse";
import { timings } from "./timings";

export type Protocol = "ui" | "open-responses";
export const API = "/api/v1/chat";
const TICK = 50;

/** One transport a chat; `protocol` is asked for each request, so that the switch takes effect at once. */
export class GatewayTransport extends DefaultChatTransport<Message> {
  private sent = 0;
  private request: string | null = null;

  /** `onAccepted`: the gateway has taken a message, so that others can see it too. */
  constructor(
    private readonly protocol: () => Protocol,
    private readonly onAccepted: () => void,
  ) {
    super({
      api: API,
      fetch: (url, init) => this.asking(url, init),
      prepareSendMessagesRequest: ({ id, messages, body, trigger, messageId }) => ({
        body: {
          ...body,
          id,
          trigger,
          messageId,
          message: trigger === "regenerate-message" ? undefined : messages.at(-1),
          resumable: true,
        },
      }),
    });
  }

  private async asking(url: RequestInfo | URL, init?: RequestInit): Promise<Response> {
    const isNew = init?.method === "POST";
    this.sent = isNew ? performance.now() : 0;
    const answer = await ask(`${url}?protocol=${this.protocol()}`, init);
    this.request = isNew ? answer.headers.get("x-request-id") : null;
    if (isNew) this.onAccepted();
    return answer;
  }

  protected override processResponseStream(stream: ReadableStream<Uint8Array<ArrayBufferLike>>) {
    const chunks = this.protocol() === "ui" ? super.processResponseStream(stream) : translated(stream);
    return chunks.pipeThrough(coalesced()).pipeThrough(timings.watch(this.sent, this.request));
  }
}

function translated(stream: ReadableStream<Uint8Array>): ReadableStream<UIMessageChunk> {
  const chunks = new Chunks();
  const read = events(stream);
  return new ReadableStream({
    async pull(controller) {
      for (;;) {
        const { done, value } = await read.next();
        if (done) {
          controller.close();
          return;
        }
        const made = value
          .filter(({ data }) => data !== "[DONE]")
          .flatMap(({ data }) => chunks.of(JSON.parse(data) as ResponseEvent));
        for (const chunk of made) controller.enqueue(chunk);
        if (made.length > 0) return;
      }
    },
    async cancel() {
      await read.return(undefined);
    },
  });
}

/** Joins the deltas of one part that come within a tick: the AI SDK copies the message for each chunk. */
export function coalesced(): TransformStream<UIMessageChunk, UIMessageChunk> {
  let held: UIMessageChunk | null = null;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let began = 0;
  const release = (controller: TransformStreamDefaultController<UIMessageChunk>) => {
    clearTimeout(timer);
    if (held !== null) controller.enqueue(held);
    held = null;
  };
  return new TransformStream({
    async transform(chunk, controller) {
      if (held !== null && joins(held, chunk)) {
        held = joined(held, chunk);
        if (performance.now() - began < TICK) return;
      } else {
        release(controller);
        if (!isDelta(chunk)) {
          controller.enqueue(chunk);
          return;
        }
        held = chunk;
        timer = setTimeout(() => {
          try {
            release(controller);
          } catch {
            // The user stopped the answer: the stream is closed, and its reader is gone.
          }
        }, TICK);
        if (performance.now() - began < TICK) return;
      }
      // A stream that never pauses would keep the page from painting.
      began = performance.now();
      release(controller);
      await new Promise((resolve) => setTimeout(resolve));
    },
    flush: release,
  });
}

function isDelta(chunk: UIMessageChunk): boolean {
  return chunk.type === "text-delta" || chunk.type === "reasoning-delta" || chunk.type === "tool-input-delta";
}

function joins(held: UIMessageChunk, chunk: UIMessageChunk): boolean {
  if (held.type !== chunk.type) return false;
  if (held.type === "tool-input-delta" && chunk.type === "tool-input-delta")
    return held.toolCallId === chunk.toolCallId;
  return "id" in held && "id" in chunk && held.id === chunk.id && isDelta(held);
}

function joined(held: UIMessageChunk, chunk: UIMessageChunk): UIMessageChunk {
  if (held.type === "tool-input-delta" && chunk.type === "tool-input-delta")
    return { ...held, inputTextDelta: held.inputTextDelta + chunk.inputTextDelta };
  if ("delta" in held && "delta" in chunk) return { ...held, delta: `${held.delta}${chunk.delta}` };
  return chunk;
}

/** What this page knows of the answers that it has seen come: how long they took, and the id of their request. */

import type { UIMessageChunk } from "ai";

export interface Timing {
  /** Milliseconds from the question to the first word; none where the page came later. */
  first: number | null;
  /** Milliseconds from the first word to the last. */
  words: number;
  /** Milliseconds of reasoning before the first word of the answer. */
  thought: number | null;
}

class Timings {
  private readonly known = new Map<string, Timing>();
  private readonly requests = new Map<string, string>();

  of(response: string | undefined): Timing | undefined {
    return response === undefined ? undefined : this.known.get(response);
  }

  /** What the gateway's log calls the request that was answered so. */
  requestOf(response: string | undefined): string | undefined {
    return response === undefined ? undefined : this.requests.get(response);
  }

  /** Looks at the chunks of an answer on their way; `sent` is when it was asked for, or 0. */
  watch(sent: number, request: string | null): TransformStream<UIMessageChunk, UIMessageChunk> {
    let id = "";
    let first = 0;
    let thought = 0;
    return new TransformStream({
      transform: (chunk, controller) => {
        const now = performance.now();
        if (chunk.type === "start") {
          const told = chunk.messageMetadata as { responseId?: string } | undefined;
          id = told?.responseId ?? "";
          if (request !== null) this.requests.set(id, request);
        } else if (chunk.type === "text-delta" || chunk.type === "reasoning-delta") {
          first ||= now;
          if (chunk.type === "reasoning-delta") thought = now;
          this.known.set(id, {
            first: sent === 0 ? null : first - sent,
            words: now - first,
            thought: thought === 0 ? null : thought - (sent || first),
          });
        }
        controller.enqueue(chunk);
      },
    });
  }
}

export const timings = new Timings();

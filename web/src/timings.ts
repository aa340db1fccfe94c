/**
 * The durations of the answers that this browser requested, and the ids of the requests of this page.
 *
 * Kept in the browser, so that an answer which is resumed after a reload, or by another tab, still has its times.
 */

import type { UIMessageChunk } from "ai";

export interface Timing {
  /** Milliseconds from the question to the first word; none where another browser has asked. */
  first: number | null;
  /** Milliseconds from the first word to the last. */
  words: number;
  /** Milliseconds of reasoning before the first word of the answer. */
  thought: number | null;
}

/** Moments, in milliseconds since 1970; 0 is not yet. */
interface Moments {
  asked: number;
  first: number;
  last: number;
  thought: number;
}

const NAME = "antiphon.timings";
const KEPT = 100;

function kept(): Record<string, Moments> {
  try {
    return JSON.parse(localStorage.getItem(NAME) ?? "{}") as Record<string, Moments>;
  } catch {
    return {};
  }
}

function keep(id: string, moments: Moments): void {
  const all = Object.entries({ ...kept(), [id]: moments });
  localStorage.setItem(NAME, JSON.stringify(Object.fromEntries(all.slice(-KEPT))));
}

class Timings {
  private readonly known = new Map<string, Moments>();
  private readonly requests = new Map<string, string>();

  of(response: string | undefined): Timing | undefined {
    if (response === undefined) return undefined;
    const known = this.moments(response);
    if (known === undefined || known.first === 0) return undefined;
    const { asked, first, last, thought } = known;
    return { first: first - asked, words: last - first, thought: thought === 0 ? null : thought - asked };
  }

  private moments(response: string): Moments | undefined {
    const known = this.known.get(response) ?? kept()[response];
    if (known !== undefined) this.known.set(response, known);
    return known;
  }

  /** What the gateway's log calls the request that was answered so. */
  requestOf(response: string | undefined): string | undefined {
    return response === undefined ? undefined : this.requests.get(response);
  }

  /** Looks at the chunks of an answer on their way; `sent` is when it was asked for, or 0 where it is resumed. */
  watch(sent: number, request: string | null): TransformStream<UIMessageChunk, UIMessageChunk> {
    let id = "";
    let known: Moments | undefined;
    let reasoned = false;
    const note = (chunk: UIMessageChunk) => {
      if (chunk.type === "start") {
        const told = chunk.messageMetadata as { responseId?: string } | undefined;
        id = told?.responseId ?? "";
        if (request !== null) this.requests.set(id, request);
        known =
          sent === 0 ? this.moments(id) : { asked: Date.now() - (performance.now() - sent), ...NOT_YET };
        if (known !== undefined && sent !== 0) this.known.set(id, known);
      } else if (known !== undefined && (chunk.type === "text-delta" || chunk.type === "reasoning-delta")) {
        const isFirst = known.first === 0;
        known.last = Date.now();
        known.first ||= known.last;
        reasoned ||= chunk.type === "reasoning-delta";
        // What is resumed tells all of its reasoning once more.
        const isThought = reasoned && chunk.type === "text-delta" && known.thought === 0;
        if (isThought) known.thought = known.last;
        if (isFirst || isThought) keep(id, known);
      }
    };
    return new TransformStream({
      transform: (chunk, controller) => {
        note(chunk);
        controller.enqueue(chunk);
      },
      flush: () => {
        if (known === undefined || known.first === 0) return;
        if (reasoned && known.thought === 0) known.thought = known.last;
        keep(id, known);
      },
    });
  }
}

const NOT_YET = { first: 0, last: 0, thought: 0 };

export const timings = new Timings();

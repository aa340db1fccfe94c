/** Server-sent events as they come: `data` lines joined, comments and other fields left out. */

export interface ServerSentEvent {
  data: string;
  /** How many characters it took on the wire, near enough. */
  size: number;
}

export class Decoder {
  private rest = "";
  private data: string[] = [];
  private size = 0;

  feed(text: string): ServerSentEvent[] {
    const found: ServerSentEvent[] = [];
    const lines = (this.rest + text).split("\n");
    this.rest = lines.pop() ?? "";
    for (const raw of lines) {
      const line = raw.endsWith("\r") ? raw.slice(0, -1) : raw;
      this.size += raw.length + 1;
      if (line === "") {
        if (this.data.length > 0) found.push({ data: this.data.join("\n"), size: this.size });
        this.data = [];
        this.size = 0;
      } else if (line.startsWith("data:")) {
        this.data.push(line.slice(line.charAt(5) === " " ? 6 : 5));
      }
    }
    return found;
  }
}

/** The events of a body, a network read at a time. */
export async function* events(body: ReadableStream<Uint8Array>): AsyncGenerator<ServerSentEvent[]> {
  const decoder = new Decoder();
  const reader = body.pipeThrough(new TextDecoderStream() as TransformStream<Uint8Array, string>).getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const found = decoder.feed(value);
      if (found.length > 0) yield found;
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}

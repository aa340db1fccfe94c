/** Tabs of one browser tell each other which chat has changed. */

const channel = new BroadcastChannel("antiphon");

export function announce(chat: string): void {
  channel.postMessage(chat);
  listeners.forEach((listener) => {
    listener(chat, true);
  });
}

type Listener = (chat: string, isOurs: boolean) => void;
const listeners = new Set<Listener>();

channel.addEventListener("message", ({ data }: MessageEvent<string>) => {
  listeners.forEach((listener) => {
    listener(data, false);
  });
});

export function onChange(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

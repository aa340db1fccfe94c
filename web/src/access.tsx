/** The question for a key, where the gateway has keys. */

import { useEffect, useRef, useState } from "react";
import { ApiError, call, SESSION, sendKey } from "./api";
import { Mark } from "./icons";
import type { SessionObject } from "./protocol";
import { text } from "./text";

export function Access({ onEntered }: { onEntered: (session: SessionObject) => void }) {
  const [key, setKey] = useState("");
  const [stays, setStays] = useState(false);
  const [problem, setProblem] = useState<string | null>(null);
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current?.focus(), []);
  const enter = async () => {
    sendKey(key.trim());
    try {
      const session = await call<SessionObject>(stays ? "POST" : "GET", SESSION);
      // From here on the cookie says who this is, and the page forgets the key.
      if (stays) sendKey(null);
      onEntered(session);
    } catch (error) {
      sendKey(null);
      const isWrong = error instanceof ApiError && error.status === 401;
      setProblem(
        isWrong
          ? text.access.wrong
          : error instanceof ApiError && error.isOffline
            ? text.error.offline
            : String(error),
      );
    }
  };
  return (
    <main className="flex h-full items-center justify-center p-6">
      <form
        className="w-full max-w-sm"
        onSubmit={(event) => {
          event.preventDefault();
          void enter();
        }}
      >
        <Mark size={40} />
        <h1 className="mt-4 font-serif text-2xl font-semibold">{text.access.title}</h1>
        <label className="mt-6 block">
          <span className="label">{text.access.label}</span>
          <input
            ref={field}
            type="password"
            autoComplete="off"
            className="field mt-1 font-mono"
            value={key}
            onChange={(event) => setKey(event.target.value)}
            aria-describedby="key-hint"
          />
        </label>
        <p id="key-hint" className="mt-1 text-sm text-muted">
          {text.access.hint}
        </p>
        <label className="mt-4 flex items-center gap-2 text-sm">
          <input
            type="checkbox"
            className="accent-(--accent)"
            checked={stays}
            onChange={(event) => setStays(event.target.checked)}
          />
          {text.access.stay}
        </label>
        {problem && (
          <p role="alert" className="mt-4 border-l-2 border-accent pl-3 text-sm">
            {problem}
          </p>
        )}
        <button type="submit" className="firm main mt-5" disabled={key.trim() === ""}>
          {text.access.enter}
        </button>
      </form>
    </main>
  );
}

/** Before the first word. */

import { useEffect, useState } from "react";
import type { ApiError } from "./api";
import { Problem } from "./chat_view";
import { create } from "./chats";
import { Composer } from "./composer";
import { conversation, type Outgoing } from "./conversation";
import { Mark } from "./icons";
import { show } from "./route";
import { text } from "./text";

export function NewChat() {
  const [problem, setProblem] = useState<ApiError | null>(null);
  const [returned, setReturned] = useState<Outgoing[]>([]);
  useEffect(() => {
    document.title = text.name;
  }, []);
  const send = async (outgoing: Outgoing) => {
    setProblem(null);
    try {
      const { id } = await create();
      void conversation(id).send(outgoing);
      show(id, "push");
    } catch (error) {
      setProblem(error as ApiError);
      setReturned([outgoing]);
    }
  };
  return (
    <>
      <div className="flex min-h-0 grow flex-col overflow-y-auto">
        <div className="m-auto w-full max-w-[44rem] px-4 py-8">
          <div className="-ml-2">
            <Mark size={44} />
          </div>
          <h1 className="mt-4 font-serif text-[1.9rem] leading-tight font-semibold tracking-tight">
            {text.empty.title}
          </h1>
          <p className="mt-2 text-muted">{text.empty.hint}</p>
          <ul className="mt-6 border-t border-line">
            {text.empty.examples.map((example) => (
              <li key={example} className="border-b border-line">
                <button
                  type="button"
                  className="w-full rounded px-1 py-2.5 text-left font-medium hover:text-accent"
                  onClick={() => void send({ text: example, files: [] })}
                >
                  {example}
                </button>
              </li>
            ))}
          </ul>
          {problem && <Problem problem={problem} />}
        </div>
      </div>
      <Composer
        chat={null}
        isRunning={false}
        queue={[]}
        returned={returned}
        used={null}
        onSend={send}
        onStop={() => {}}
        onUnqueue={() => {}}
        onTakenBack={() => setReturned([])}
        onEditLast={() => {}}
      />
    </>
  );
}

/** One chat on the screen: its tree from the gateway's store, and the AI SDK's state of the answer under way. */

import { Chat } from "@ai-sdk/react";
import { ApiError, call, pathOf } from "./api";
import { keepQueue, keepUnsent, queued, unsent } from "./drafts";
import type { Attached } from "./files";
import { asked, type Message, messagesOf, plainText } from "./messages";
import { Observable } from "./observable";
import type { ChatObject, Item, Page, TreeNode } from "./protocol";
import { parameters, protocol } from "./settings";
import { announce } from "./tabs";
import { GatewayTransport } from "./transport";
import { Tree } from "./tree";

export interface Outgoing {
  text: string;
  files: Attached[];
}

/** A message that the gateway has not confirmed. */
export interface Unsent {
  outgoing: Outgoing;
  /** The responses that the page knew when it sent the message: none of them answers it. */
  known: string[];
}

interface State {
  chat: ChatObject | null;
  tree: Tree;
  /** What waits until the answer under way is complete. */
  queue: Outgoing[];
  /** What was not sent after all, until the field for the next message has it again. */
  returned: Outgoing[];
  /** Why the last request was refused. */
  problem: ApiError | null;
  isLoaded: boolean;
}

const EMPTY = new Tree([]);
const SOON = 300;

export class Conversation {
  readonly state = new Observable<State>({
    chat: null,
    tree: EMPTY,
    queue: [],
    returned: [],
    problem: null,
    isLoaded: false,
  });
  readonly ai: Chat<Message>;
  private last: (() => Promise<void>) | null = null;
  /** The message that is on its way to the gateway. */
  private sending: Unsent | null = null;
  /** Messages that were sent while the gateway was away. */
  private unsent: Unsent[];

  constructor(readonly id: string) {
    this.state.change({ queue: queued(id) });
    this.unsent = unsent(id);
    this.ai = new Chat<Message>({
      id,
      transport: new GatewayTransport(protocol, () => this.accepted()),
      onError: (error) => this.requestFailed(error),
      onFinish: () => {
        // After the AI SDK has noted that it is done.
        setTimeout(() => void this.finished());
      },
    });
  }

  get isRunning(): boolean {
    return this.ai.status === "submitted" || this.ai.status === "streaming";
  }

  /** What the store has; an answer that is under way is followed from its start, else the queue goes on. */
  async load(): Promise<void> {
    // Only these: what is sent while the store is read cannot be in what was read.
    const sent = this.sending === null || this.isRunning ? this.unsent : [...this.unsent, this.sending];
    const wasAway = this.state.value.problem?.isOffline ?? false;
    try {
      const [chat, tree] = await Promise.all([call<ChatObject>("GET", pathOf(this.id)), this.nodes()]);
      if (this.isRunning) return;
      this.giveBack(sent, tree);
      this.show(chat, new Tree(tree));
      if (wasAway) announce(this.id); // The list has missed what happened meanwhile
      if (chat.running !== null) await this.follow(chat.running);
      else this.sendNext();
    } catch (error) {
      this.failed(error);
      const isGone = error instanceof ApiError && error.status === 404;
      this.state.change(isGone ? { chat: null, isLoaded: true } : { isLoaded: true });
    }
  }

  private async nodes(): Promise<TreeNode[]> {
    const found: TreeNode[] = [];
    for (let after = ""; ; ) {
      const page = await call<Page<TreeNode>>(
        "GET",
        `${pathOf(this.id)}/responses?limit=100&order=asc${after}`,
      );
      found.push(...page.data);
      if (!page.has_more) return found;
      after = `&after=${page.last_id}`;
    }
  }

  private accepted(): void {
    this.sending = null;
    announce(this.id);
  }

  /** Remembers a message that may or may not have reached the gateway. */
  private requestFailed(error: Error): void {
    this.failed(error);
    if (this.sending !== null && problemOf(error)?.isOffline) {
      this.unsent = [...this.unsent, this.sending];
      keepUnsent(this.id, this.unsent);
    }
    this.sending = null;
  }

  /** Puts the messages that have not come to the chat back into the field for the next one. */
  private giveBack(sent: readonly Unsent[], stored: readonly TreeNode[]): void {
    if (sent.length === 0) return;
    const lost = sent.filter((one) => !stored.some((node) => isAnswerTo(node, one)));
    if (this.sending !== null && sent.includes(this.sending)) this.sending = null;
    this.unsent = this.unsent.filter((one) => !sent.includes(one));
    keepUnsent(this.id, this.unsent);
    this.state.change({ returned: [...this.state.value.returned, ...lost.map((one) => one.outgoing)] });
  }

  private show(chat: ChatObject, tree: Tree): void {
    const { problem } = this.state.value;
    const isOver = problem === null || problem.isOffline || problem.status === 404;
    this.state.change({ chat, tree, isLoaded: true, problem: isOver ? null : problem });
    this.ai.messages = messagesOf(tree.path(chat.current));
  }

  private async follow(running: string): Promise<void> {
    this.ai.messages = this.ai.messages.filter((message) => message.id !== running);
    await this.ai.resumeStream();
    // It may have ended before it could be followed, and then no stream tells its end.
    const isThere = this.ai.messages.some((message) => message.id === running);
    if (!isThere && !this.isRunning) setTimeout(() => void this.load(), SOON);
  }

  async send(outgoing: Outgoing): Promise<void> {
    if (this.isRunning) {
      this.wait([...this.state.value.queue, outgoing]);
      return;
    }
    const parts: Message["parts"] = [...outgoing.files];
    if (outgoing.text !== "") parts.push({ type: "text", text: outgoing.text });
    await this.run(() => {
      this.sending = this.unconfirmed(outgoing);
      return this.ai.sendMessage({ parts }, { body: parameters() });
    });
  }

  /** Another answer to the same question, as a branch beside it. */
  async regenerate(node: string): Promise<void> {
    await this.run(() => this.ai.regenerate({ messageId: node, body: parameters() }));
  }

  /** The question in other words, as a branch beside it. */
  async edit(message: Message, text: string): Promise<void> {
    const files = message.parts.filter((part) => part.type === "file");
    const parts: Message["parts"] = [...files, { type: "text", text }];
    const outgoing = { text, files: files.map((file) => ({ ...file, filename: file.filename ?? "" })) };
    await this.run(() => {
      this.sending = this.unconfirmed(outgoing);
      return this.ai.sendMessage({ parts, messageId: message.id }, { body: parameters() });
    });
  }

  private unconfirmed(outgoing: Outgoing): Unsent {
    const seen = this.ai.messages.flatMap(({ metadata }) => metadata?.responseId ?? []);
    return { outgoing, known: [...this.state.value.tree.nodes.keys(), ...seen] };
  }

  /** An item that no message can carry, such as the answer to a request for approval. */
  async reply(item: Item): Promise<void> {
    await this.run(async () => {
      const previous_response_id = this.state.value.chat?.current;
      const place = { "antiphon:chat": this.id, previous_response_id };
      await call("POST", "/v1/responses", { ...parameters(), ...place, input: [item], background: true });
      await this.load();
    });
  }

  async retry(): Promise<void> {
    const { chat, tree } = this.state.value;
    const again = this.state.value.problem?.isOffline ? null : this.last;
    this.state.change({ problem: null });
    this.ai.clearError();
    if (again === null) await this.load();
    else {
      // What was refused is not in the chat, and is said again.
      this.ai.messages = messagesOf(tree.path(chat?.current ?? null));
      await again();
    }
  }

  async select(branch: string): Promise<void> {
    const { tree } = this.state.value;
    try {
      const chat = await call<ChatObject>("POST", pathOf(this.id), { current: tree.newest(branch) });
      this.show(chat, tree);
      announce(this.id);
    } catch (error) {
      this.failed(error);
    }
  }

  async stop(): Promise<void> {
    const running = this.ai.messages.at(-1)?.metadata?.responseId;
    this.state.change({ returned: [...this.state.value.returned, ...this.state.value.queue] });
    this.wait([]);
    if (running !== undefined) await call("POST", `/v1/responses/${running}/cancel`).catch(() => {});
    await this.ai.stop();
  }

  takeBack(): void {
    this.state.change({ returned: [] });
  }

  unqueue(at: number): void {
    this.wait(this.state.value.queue.filter((_, n) => n !== at));
  }

  private wait(queue: Outgoing[]): void {
    this.state.change({ queue });
    keepQueue(this.id, queue);
  }

  private async run(start: () => Promise<void>): Promise<void> {
    this.state.change({ problem: null });
    this.last = () => this.run(start);
    await start();
  }

  private failed(error: unknown): void {
    const problem = problemOf(error);
    if (problem !== null) this.state.change({ problem });
  }

  private async finished(): Promise<void> {
    const { problem } = this.state.value;
    if (problem !== null && !problem.isOffline) return;
    await this.load();
    announce(this.id);
  }

  private sendNext(): void {
    const { problem, queue } = this.state.value;
    const [next, ...rest] = queue;
    if (next === undefined || problem !== null || this.isRunning) return;
    this.wait(rest);
    void this.send(next);
  }
}

/** Does this response answer the message? The gateway gives it another id, so its words are compared. */
function isAnswerTo(node: TreeNode, { outgoing, known }: Unsent): boolean {
  if (known.includes(node.id)) return false;
  const [message] = asked(node);
  const files = message?.parts.filter((part) => part.type === "file") ?? [];
  return (
    message !== undefined &&
    plainText(message) === outgoing.text.trim() &&
    files.length === outgoing.files.length
  );
}

/** A stream that breaks off is a gateway that is gone; a failure that it told is in the answer, as it is stored. */
function problemOf(error: unknown): ApiError | null {
  if (error instanceof ApiError) return error;
  if (error instanceof TypeError) return new ApiError(0, { code: "offline", message: "" }, null);
  return null;
}

const open = new Map<string, Conversation>();

/** A chat goes on while another one is looked at. */
export function conversation(id: string): Conversation {
  const known = open.get(id) ?? new Conversation(id);
  open.set(id, known);
  return known;
}

export function forget(id: string): void {
  open.delete(id);
}

/** Forgets all chats, because the next user may have another key. */
export function forgetAll(): void {
  open.clear();
}

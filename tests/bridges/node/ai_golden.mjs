// A kept stream through the reader of a client: the package, and the file. Gives the message it makes.
import { readFile } from "node:fs/promises";

export default async function run(name, file) {
  const body = await readFile(file);
  const sdk = await import(name);
  let message;
  if (name === "ai4") {
    const { callChatApi } = await import("@ai-sdk/ui-utils");
    await callChatApi({
      api: "kept",
      body: {},
      fetch: async () => new Response(body),
      restoreMessagesOnFailure() {},
      onUpdate: (update) => { message = update.message; },
      generateId: () => "client-id",
    });
  } else {
    const transport = new sdk.DefaultChatTransport({ fetch: async () => new Response(body) });
    const stream = await transport.sendMessages({ chatId: "c", messages: [], trigger: "submit-message" });
    const onError = (error) => { throw error; };
    for await (const state of sdk.readUIMessageStream({ stream, onError, terminateOnError: true })) message = state;
  }
  return message;
}

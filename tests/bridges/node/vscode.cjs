// The compiled extension in a stand-in for its host: what it makes of a gateway, as JSON.
// Arguments: the folder of the compiled extension, the settings, and what to do.
const Module = require("node:module");
const path = require("node:path");

const [folder, settings, wish] = process.argv.slice(2).map((text) => JSON.parse(text));

class Part {
  constructor(fields) {
    Object.assign(this, fields);
  }
}
class Text extends Part {
  constructor(value) {
    super({ value });
  }
}
class Thinking extends Part {
  constructor(value, id, metadata) {
    super({ value, id, metadata });
  }
}
class Data extends Part {
  constructor(data, mimeType) {
    super({ data, mimeType });
  }
}
class Call extends Part {
  constructor(callId, name, input) {
    super({ callId, name, input });
  }
}
class Result extends Part {
  constructor(callId, content) {
    super({ callId, content });
  }
}
class Tsx extends Part {
  constructor(value) {
    super({ value });
  }
}
class LanguageModelError extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}
for (const code of ["NoPermissions", "NotFound", "Blocked"]) {
  LanguageModelError[code] = (message) => new LanguageModelError(code, message);
}
class CancellationError extends Error {}
class EventEmitter {
  listeners = [];
  event = (listener) => this.listeners.push(listener);
  fire(value) {
    this.listeners.forEach((listener) => listener(value));
  }
}
class Token {
  cancelled = new EventEmitter();
  isCancellationRequested = false;
  onCancellationRequested = this.cancelled.event;
  cancel() {
    this.isCancellationRequested = true;
    this.cancelled.fire();
  }
}

const shown = [];
const registered = {};
const configuration = { get: (name, otherwise) => settings[name] ?? otherwise };
const host = {
  LanguageModelTextPart: Text,
  LanguageModelThinkingPart: Thinking,
  LanguageModelDataPart: Data,
  LanguageModelToolCallPart: Call,
  LanguageModelToolResultPart: Result,
  LanguageModelPromptTsxPart: Tsx,
  LanguageModelError,
  CancellationError,
  EventEmitter,
  lm: { registerLanguageModelChatProvider: (vendor, provider) => (registered[vendor] = provider) },
  commands: { registerCommand: () => ({}) },
  window: { showErrorMessage: (message) => shown.push(message) },
  workspace: { getConfiguration: () => configuration, onDidChangeConfiguration: () => ({}) },
};
const load = Module._load;
Module._load = (name, ...rest) => (name === "vscode" ? host : load(name, ...rest));

const kinds = {
  text: (part) => new Text(part.value),
  data: (part) => new Data(Buffer.from(part.data, "base64"), part.mimeType),
  toolCall: (part) => new Call(part.callId, part.name, part.input),
  toolResult: (part) => new Result(part.callId, part.content.map(fromJson)),
  promptTsx: (part) => new Tsx(part.value),
  thinking: (part) => new Thinking(part.value, part.id, part.metadata),
};
const fromJson = (part) => kinds[part.type](part);
const toJson = (part) => {
  const type = { Text: "text", Thinking: "thinking", Data: "data", Call: "toolCall", Result: "toolResult" };
  const fields = part instanceof Data ? { ...part, data: Buffer.from(part.data).toString("base64") } : { ...part };
  return { type: type[part.constructor.name], ...fields };
};

async function main() {
  const { activate } = require(path.join(folder, "extension.js"));
  const secrets = { get: async () => settings.key };
  activate({ subscriptions: [], secrets, extension: { id: "antiphon.antiphon-models" } });
  const provider = registered["antiphon"];
  const token = new Token();
  const models = await provider.provideLanguageModelChatInformation({ silent: false }, token);
  if (wish.chat === undefined) {
    const counted = models.length && (await provider.provideTokenCount(models[0], "one two three", token));
    return { models, counted, shown };
  }
  const { messages, cancelAfter, ...options } = wish.chat;
  const parts = [];
  const report = (part) => {
    parts.push(toJson(part));
    if (parts.length === cancelAfter) {
      token.cancel();
    }
  };
  const read = messages.map((message) => ({ ...message, content: message.content.map(fromJson) }));
  try {
    await provider.provideLanguageModelChatResponse(models[0], read, options, { report }, token);
    return { parts };
  } catch (error) {
    return { parts, error: { name: error.constructor.name, code: error.code, message: error.message } };
  }
}

main().then((result) => process.stdout.write(JSON.stringify(result)));

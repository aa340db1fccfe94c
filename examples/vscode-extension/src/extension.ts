// The models of an Antiphon gateway as language models of VS Code.

import * as vscode from "vscode";
import * as gateway from "./gateway";
import { textOf, toJson, toPart } from "./parts";

const KEY = "antiphon.key";
const CHARACTERS_A_TOKEN = 4;

export function activate(context: vscode.ExtensionContext): void {
  const provider = new Models(context);
  context.subscriptions.push(
    vscode.lm.registerLanguageModelChatProvider("antiphon", provider),
    vscode.commands.registerCommand("antiphon.setKey", () => provider.setKey()),
    vscode.workspace.onDidChangeConfiguration((change) => {
      if (change.affectsConfiguration("antiphon")) {
        provider.refresh();
      }
    }),
  );
}

class Models implements vscode.LanguageModelChatProvider {
  private readonly changed = new vscode.EventEmitter<void>();
  readonly onDidChangeLanguageModelChatInformation = this.changed.event;

  constructor(private readonly context: vscode.ExtensionContext) {}

  refresh(): void {
    this.changed.fire();
  }

  async setKey(): Promise<void> {
    const prompt = "The key of the Antiphon gateway; leave it empty if the gateway has none.";
    const key = await vscode.window.showInputBox({ prompt, password: true, ignoreFocusOut: true });
    if (key === undefined) {
      return;
    }
    await (key === "" ? this.context.secrets.delete(KEY) : this.context.secrets.store(KEY, key));
    this.refresh();
  }

  async provideLanguageModelChatInformation(
    options: vscode.PrepareLanguageModelChatModelOptions,
    token: vscode.CancellationToken,
  ): Promise<vscode.LanguageModelChatInformation[]> {
    const settings = await this.settings();
    const { maxInputTokens, maxOutputTokens } = limits();
    try {
      const names = await gateway.models(settings, signalOf(token));
      return names.map((id) => ({
        id,
        name: id,
        family: id.split("/").at(-1) ?? id,
        version: "1",
        detail: "Antiphon",
        tooltip: `${id}, through the Antiphon gateway at ${settings.url}`,
        maxInputTokens,
        maxOutputTokens,
        capabilities: { imageInput: true, toolCalling: true },
      }));
    } catch (error) {
      // A gateway that is not running has no models; somebody who asked for them is told why.
      if (!options.silent && !token.isCancellationRequested) {
        void vscode.window.showErrorMessage(`Antiphon at ${settings.url}: ${reasonOf(error)}`);
      }
      return [];
    }
  }

  async provideLanguageModelChatResponse(
    model: vscode.LanguageModelChatInformation,
    messages: readonly vscode.LanguageModelChatRequestMessage[],
    options: vscode.ProvideLanguageModelChatResponseOptions,
    progress: vscode.Progress<vscode.LanguageModelResponsePart>,
    token: vscode.CancellationToken,
  ): Promise<void> {
    const body = {
      model: model.id,
      messages: messages.map(toJson),
      tools: options.tools,
      toolMode: options.toolMode,
      modelOptions: options.modelOptions,
      options: { marker: this.context.extension.id, ...configured<object>("options", {}) },
    };
    try {
      for await (const line of gateway.chat(await this.settings(), body, signalOf(token))) {
        if (token.isCancellationRequested) {
          return; // what came in the same piece as the last part is no longer wanted
        }
        if (line.type === "finish") {
          this.end(line);
        } else if (line.type !== "start") {
          const part = toPart(line);
          if (part !== undefined) {
            progress.report(part);
          }
        }
      }
    } catch (error) {
      if (!token.isCancellationRequested) {
        throw asVsCode(error);
      }
    }
  }

  async provideTokenCount(
    model: vscode.LanguageModelChatInformation,
    text: string | vscode.LanguageModelChatRequestMessage,
    token: vscode.CancellationToken,
  ): Promise<number> {
    const words = textOf(text);
    const exact = await gateway.countTokens(await this.settings(), model.id, words, signalOf(token));
    return exact ?? Math.ceil(words.length / CHARACTERS_A_TOKEN);
  }

  private end(finish: gateway.Finish): void {
    if (finish.reason === "error") {
      const { code, message } = finish.error ?? { code: "", message: "the answer failed" };
      throw new gateway.GatewayError(500, code, message);
    }
    if (finish.reason === "cancelled") {
      throw new vscode.CancellationError();
    }
  }

  private async settings(): Promise<gateway.Settings> {
    return {
      url: configured("url", "http://127.0.0.1:8080"),
      key: await this.context.secrets.get(KEY),
      inactivity: configured("inactivityTimeout", 120) * 1000,
    };
  }
}

function limits(): { maxInputTokens: number; maxOutputTokens: number } {
  return {
    maxInputTokens: configured("maxInputTokens", 128000),
    maxOutputTokens: configured("maxOutputTokens", 8192),
  };
}

function configured<T>(name: string, otherwise: T): T {
  return vscode.workspace.getConfiguration("antiphon").get(name, otherwise);
}

function signalOf(token: vscode.CancellationToken): AbortSignal {
  const controller = new AbortController();
  if (token.isCancellationRequested) {
    controller.abort();
  }
  token.onCancellationRequested(() => controller.abort());
  return controller.signal;
}

function asVsCode(error: unknown): Error {
  if (error instanceof gateway.GatewayError) {
    switch (error.status) {
      case 401:
      case 403:
        return vscode.LanguageModelError.NoPermissions(error.message);
      case 404:
        return vscode.LanguageModelError.NotFound(error.message);
      case 429:
        return vscode.LanguageModelError.Blocked(error.message);
    }
  }
  return error instanceof Error ? error : new Error(String(error));
}

function reasonOf(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? `: ${error.cause.message}` : "";
  return error instanceof Error ? error.message + cause : String(error);
}

/** Settings, and the keyboard. */

import type { ReactNode } from "react";
import { Dialog } from "./controls";
import { modelOf, models } from "./models";
import { useObservable } from "./observable";
import type { SessionObject } from "./protocol";
import { defaultProtocol, type Settings, settings, useSettings } from "./settings";
import { text } from "./text";

interface SettingsProps {
  session: SessionObject | null;
  onClose: () => void;
  onLeave: () => void;
}

export default function SettingsDialog({ session, onClose, onLeave }: SettingsProps) {
  const now = useSettings();
  const tools = modelOf(useObservable(models).models, now.model)?.tools ?? [];
  const byDefault = useObservable(defaultProtocol);
  return (
    <Dialog title={text.settings.title} onClose={onClose}>
      <div className="space-y-5">
        <Field label={text.settings.instructions}>
          <textarea
            className="field"
            rows={4}
            value={now.instructions}
            onChange={(event) => settings.change({ instructions: event.target.value })}
          />
        </Field>
        <div className="grid gap-4 sm:grid-cols-3">
          <NumberField label={text.settings.temperature} name="temperature" step={0.1} max={2} />
          <NumberField label={text.settings.topP} name="topP" step={0.05} max={1} />
          <NumberField label={text.settings.maxTokens} name="maxOutputTokens" step={1} />
        </div>
        {tools.length > 0 && <Tools names={tools} />}
        <Field label={text.settings.appearance}>
          <select
            className="field"
            value={now.theme}
            onChange={(event) => settings.change({ theme: event.target.value as Settings["theme"] })}
          >
            <option value="system">{text.settings.system}</option>
            <option value="light">{text.settings.light}</option>
            <option value="dark">{text.settings.dark}</option>
          </select>
        </Field>
        <Field label={text.settings.protocol} hint={text.settings.protocolHint}>
          <select
            className="field"
            value={now.protocol ?? ""}
            onChange={(event) =>
              settings.change({ protocol: (event.target.value || null) as Settings["protocol"] })
            }
          >
            <option value="">
              {text.settings.protocolDefault(
                byDefault === "ui" ? text.settings.ui : text.settings.openResponses,
              )}
            </option>
            <option value="ui">{text.settings.ui}</option>
            <option value="open-responses">{text.settings.openResponses}</option>
          </select>
        </Field>
        <footer className="flex items-center justify-between border-t border-line pt-4 text-sm">
          <a className="text-accent underline underline-offset-4" href="/docs">
            {text.settings.api}
          </a>
          {session?.key && (
            <button type="button" className="firm" onClick={onLeave}>
              {text.access.leave}
            </button>
          )}
        </footer>
      </div>
    </Dialog>
  );
}

function Field({ label, hint, children }: { label: string; hint?: string; children: ReactNode }) {
  return (
    // biome-ignore lint/a11y/noLabelWithoutControl: the control is what is inside
    <label className="block">
      <span className="label">{label}</span>
      <div className="mt-1">{children}</div>
      {hint && <span className="mt-1 block text-sm text-muted">{hint}</span>}
    </label>
  );
}

interface NumberProps {
  label: string;
  name: "temperature" | "topP" | "maxOutputTokens";
  step: number;
  max?: number;
}

function NumberField({ label, name, step, max }: NumberProps) {
  const now = useSettings();
  return (
    <Field label={label}>
      <input
        type="number"
        className="field font-mono"
        min={step === 1 ? 1 : 0}
        max={max}
        step={step}
        placeholder={text.settings.unset}
        value={now[name] ?? ""}
        onChange={(event) =>
          settings.change({ [name]: event.target.value === "" ? null : Number(event.target.value) })
        }
      />
    </Field>
  );
}

function Tools({ names }: { names: string[] }) {
  const { tools } = useSettings();
  return (
    <fieldset>
      <legend className="label">{text.settings.tools}</legend>
      {names.map((name) => (
        <label key={name} className="mt-1 flex items-center gap-2 text-sm">
          <input
            type="checkbox"
            className="accent-(--accent)"
            checked={tools.includes(name)}
            onChange={(event) =>
              settings.change({
                tools: event.target.checked ? [...tools, name] : tools.filter((one) => one !== name),
              })
            }
          />
          <span className="font-mono text-[0.8125rem]">{name}</span>
        </label>
      ))}
    </fieldset>
  );
}

export function KeyboardDialog({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title={text.keys.title} onClose={onClose} isNarrow>
      <dl className="grid grid-cols-[auto_1fr] gap-x-6 gap-y-2 text-sm">
        {text.keys.rows.map(([keys, what]) => (
          <div key={keys} className="contents">
            <dt className="font-mono text-[0.8125rem]">{keys}</dt>
            <dd className="text-muted">{what}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}

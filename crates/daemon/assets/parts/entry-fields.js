// The fields of a server's entry.

import { html } from "../html.js";
import { onText } from "./input.js";

/** @typedef {import("../entry.js").EntryForm} EntryForm */
/** @typedef {import("../entry.js").Pair} Pair */

/** @param {{form: EntryForm, onChange: (form: EntryForm) => void, bad?: string}} given `bad` is the field with a wrong value */
export function EntryFields({ form, onChange, bad = "" }) {
  const set = (/** @type {Partial<EntryForm>} */ part) => onChange({ ...form, ...part });
  const typed = (/** @type {keyof EntryForm} */ key) => onText((text) => set({ [key]: text }));
  return html`
    <fieldset class="choice">
      <legend>How it is reached</legend>
      <label class="check">
        <input
          type="radio"
          name="transport"
          checked=${form.transport === "stdio"}
          onChange=${() => set({ transport: "stdio" })}
        />
        A program on this machine</label>
      <label class="check">
        <input
          type="radio"
          name="transport"
          checked=${form.transport === "http"}
          onChange=${() => set({ transport: "http" })}
          data-testid="transport-http"
        />
        An address</label>
    </fieldset>
    ${
      form.transport === "stdio"
        ? html`
            <label class="field">
              <span class="label">Command</span>
              <input
                class="code"
                aria-invalid=${bad === "command"}
                placeholder="npx"
                value=${form.command}
                onInput=${typed("command")}
                data-testid="command"
            /></label>
            <label class="field">
              <span class="label">Arguments</span
              ><span class="help">
                ${form.isList ? "As a JSON list: not each of them can be shown as one line" : "One on each line, without quotes"}
              </span>
              <textarea
                class="code"
                rows=${form.isList ? 8 : 4}
                aria-invalid=${bad === "args"}
                value=${form.args}
                onInput=${typed("args")}
                data-testid="args"
              />
            </label>
            <${Pairs}
              title="Environment"
              list=${form.env}
              onChange=${(/** @type {Pair[]} */ env) => set({ env })}
              one="variable"
              placeholder="\${TOKEN}"
            />
            <label class="field">
              <span class="label">Working folder <span class="optional">optional</span></span>
              <input class="code" value=${form.cwd} onInput=${typed("cwd")}
            /></label>
          `
        : html`
            <label class="field">
              <span class="label">Address</span>
              <input
                class="code"
                type="text"
                inputmode="url"
                aria-invalid=${bad === "url"}
                placeholder="https://example.com/mcp"
                value=${form.url}
                onInput=${typed("url")}
                data-testid="url"
            /></label>
            <${Pairs}
              title="Headers"
              list=${form.headers}
              onChange=${(/** @type {Pair[]} */ headers) => set({ headers })}
              one="header"
              placeholder="Bearer \${TOKEN}"
            />
          `
    }
    <details class="fold" open=${form.others !== ""}>
      <summary>Other settings</summary>
      <label class="field">
        <span class="label">As a JSON object</span>
        <textarea
          class="code"
          rows="5"
          aria-invalid=${bad === "others"}
          placeholder='{"timeout": 60000}'
          value=${form.others}
          onInput=${typed("others")}
          data-testid="others"
        />
      </label>
    </details>
  `;
}

/**
 * Names with values.
 * @param {{title: string, one: string, list: Pair[], onChange: (list: Pair[]) => void, placeholder: string}} given
 */
function Pairs({ title, one, list, onChange, placeholder }) {
  const set = (/** @type {number} */ index, /** @type {Partial<Pair>} */ part) =>
    onChange(list.map((pair, at) => (at === index ? { ...pair, ...part } : pair)));
  return html`
    <fieldset>
      <legend>${title}</legend>
      ${list.map(
        ({ name, value }, index) => html`
          <div class="pair">
            <input
              class="code"
              aria-label=${`Name of ${one} ${index + 1}`}
              value=${name}
              onInput=${onText((text) => set(index, { name: text }))}
            />
            <input
              class="code"
              aria-label=${`Value of ${one} ${index + 1}`}
              placeholder=${placeholder}
              value=${value}
              onInput=${onText((text) => set(index, { value: text }))}
            />
            <button
              type="button"
              class="quiet icon"
              aria-label=${`Remove ${name || `${one} ${index + 1}`}`}
              onClick=${() => onChange(list.filter((_, at) => at !== index))}
            >
              ×
            </button>
          </div>
        `,
      )}
      <button type="button" class="small" onClick=${() => onChange([...list, { name: "", value: "" }])}>
        Add a ${one}
      </button>
    </fieldset>
  `;
}

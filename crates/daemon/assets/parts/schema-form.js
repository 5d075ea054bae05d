// A form that a schema describes, with a switch to the same value as JSON.

import { draftOf, valueOf } from "../draft.js";
import { parseExact } from "../exact-json.js";
import { json } from "../format.js";
import { html, useMemo, useState } from "../html.js";
import { shapeOf } from "../schema.js";
import { SchemaField } from "./schema-field.js";
import { onText } from "./input.js";

/**
 * The content of a form: fields, or JSON.
 * @typedef {object} Typed
 * @property {import("../schema.js").Shape} shape
 * @property {import("../draft.js").Draft} draft
 * @property {string | null} raw the JSON, while the user edits it as text
 * @property {boolean} touched whether problems are shown
 */

/**
 * @param {unknown} schema
 * @param {unknown} [value] the initial value
 * @returns {[Typed, (typed: Typed) => void]}
 */
export function useTyped(schema, value) {
  const shape = useMemo(() => shapeOf(schema), [schema]);
  return useState(() => /** @type {Typed} */ ({ shape, draft: draftOf(shape, value), raw: null, touched: false }));
}

/**
 * Returns the value of a form.
 * @param {Typed} typed
 * @returns {{value: unknown, problems: import("../draft.js").Problem[]}}
 */
export function valueTyped({ shape, draft, raw }) {
  if (raw === null) return valueOf(shape, draft);
  try {
    return { value: parseExact(raw.trim() || "{}"), problems: [] };
  } catch (error) {
    return {
      value: undefined,
      problems: [{ path: "", message: `this is not JSON: ${/** @type {Error} */ (error).message}` }],
    };
  }
}

/** @param {{typed: Typed, onChange: (typed: Typed) => void, label?: string}} given */
export function SchemaForm({ typed, onChange, label = "Arguments" }) {
  const { shape, draft, raw, touched } = typed;
  const { value, problems } = valueTyped(typed);
  const shown = touched ? problems : [];
  const isFields = raw === null;
  const toFields = () => {
    if (problems.length > 0) onChange({ ...typed, touched: true });
    else onChange({ ...typed, raw: null, draft: draftOf(shape, value), touched: false });
  };
  return html`
    <div class="schema-form" data-testid="schema-form">
      <div class="toolbar">
        <h2>${label}</h2>
        <div class="switch" role="group" aria-label="How to write them">
          <button
            type="button"
            aria-pressed=${isFields}
            onClick=${() => !isFields && toFields()}
            data-testid="as-fields"
          >
            Fields
          </button>
          <button
            type="button"
            aria-pressed=${!isFields}
            onClick=${() => isFields && onChange({ ...typed, raw: json(valueOf(shape, draft).value ?? {}) })}
            data-testid="as-json"
          >
            JSON
          </button>
        </div>
      </div>
      ${isFields && shape.kind === "object" && shape.fields?.length === 0 && html`<p class="quiet-text">It takes none.</p>`}
      ${isFields && html`<${SchemaField} shape=${shape} draft=${draft} onChange=${(/** @type {any} */ next) => onChange({ ...typed, draft: next })} problems=${shown} top=${true} />`}
      ${
        !isFields &&
        html`
          <label class="field">
            <span class="hidden">${label} as JSON</span>
            <textarea
              class="code"
              rows="10"
              spellcheck=${false}
              aria-invalid=${shown.length > 0}
              value=${raw}
              onInput=${onText((text) => onChange({ ...typed, raw: text }))}
              data-testid="raw-json"
            />
          </label>
          ${shown.map(({ message }) => html`<p class="field-problem" role="alert">${message}</p>`)}
        `
      }
    </div>
  `;
}

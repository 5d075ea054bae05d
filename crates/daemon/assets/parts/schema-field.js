// One field of a schema's form, with the fields inside of it.

import { below, draftOf, isLine, item } from "../draft.js";
import { html, useId } from "../html.js";
import { onText, onTick } from "./input.js";

/** @typedef {import("../schema.js").Shape} Shape */
/** @typedef {import("../draft.js").Draft} Draft */

/**
 * @typedef {object} Given
 * @property {Shape} shape
 * @property {Draft} draft
 * @property {(draft: Draft) => void} onChange
 * @property {import("../draft.js").Problem[]} problems of the whole form
 * @property {string} [path]
 * @property {string} [name] of the field
 * @property {boolean} [required]
 * @property {boolean} [top] whether this is the form itself, which needs no frame
 * @property {(() => void) | null} [remove] removes it from a list, or from an object in which it is optional
 */

/** @param {Given} given */
export function SchemaField(given) {
  const { shape, top = false } = given;
  switch (shape.kind) {
    case "object":
      return top ? html`<${Fields} ...${given} />` : html`<${Group} ...${given}><${Fields} ...${given} /><//>`;
    case "array":
      return html`<${Group} ...${given}><${Items} ...${given} /><//>`;
    case "union":
      return html`<${Group} ...${given}><${Union} ...${given} /><//>`;
    default:
      return html`<${Line} ...${given} />`;
  }
}

/** The problem of exactly this field. @param {Given} given */
const problemOf = ({ problems, path = "" }) => problems.find((problem) => problem.path === path)?.message;

/** The label of a field: its title, which is for people; the name is shown beside it. @param {Given} given */
const labelOf = ({ name, shape }) => shape.title || name || "Value";

/** The name, if the label is another text. @param {{given: Given}} given */
function OwnName({ given: { name, shape } }) {
  return name && shape.title && shape.title !== name ? html` <code class="own-name">${name}</code>` : null;
}

/** @param {Given & {children?: unknown}} given */
function Group({ children, ...given }) {
  const { shape, required, remove } = given;
  const problem = problemOf(given);
  return html`
    <fieldset data-testid=${`field-${given.path ?? ""}`}>
      <legend>
        ${labelOf(given)}<${OwnName} given=${given} />${!required && html` <span class="optional">optional</span>`}
        ${remove && html`<button type="button" class="quiet small" onClick=${remove} aria-label=${`Leave out ${labelOf(given)}`}>Leave out</button>`}
      </legend>
      ${shape.description && html`<p class="help">${shape.description}</p>`} ${children}
      ${problem && html`<p class="field-problem" role="alert">${problem}</p>`}
    </fieldset>
  `;
}

/** The fields of an object. @param {Given} given */
function Fields({ shape, draft, onChange, problems, path = "" }) {
  const set = (/** @type {string} */ name, /** @type {Draft | null} */ own) =>
    onChange({ ...draft, fields: { ...draft.fields, [name]: own } });
  return html`
    ${(shape.fields ?? []).map(({ name, required, shape: part }) => {
      const inner = part();
      const own = draft.fields?.[name];
      if (!own)
        return html`<p key=${name} class="left-out">
          <button
            type="button"
            class="small"
            onClick=${() => set(name, draftOf(inner))}
            data-testid=${`set-${below(path, name)}`}
          >
            Add ${name}
          </button>
          ${" "}<span class="help">${inner.description}</span>
        </p>`;
      const remove = !required && !isLine(inner) ? () => set(name, null) : null;
      return html`<${SchemaField}
        key=${name}
        shape=${inner}
        draft=${own}
        onChange=${(/** @type {Draft} */ next) => set(name, next)}
        problems=${problems}
        path=${below(path, name)}
        name=${name}
        required=${required}
        remove=${remove}
      />`;
    })}
  `;
}

/** The items of a list. @param {Given} given */
function Items({ shape, draft, onChange, problems, path = "", name }) {
  const items = draft.items ?? [];
  const inner = shape.item?.();
  if (!inner) return null;
  const set = (/** @type {number} */ index, /** @type {Draft} */ own) =>
    onChange({ items: items.map((old, at) => (at === index ? own : old)) });
  return html`
    ${items.map(
      (own, index) => html`
        <div class="item">
          <${SchemaField}
            shape=${inner}
            draft=${own}
            onChange=${(/** @type {Draft} */ next) => set(index, next)}
            problems=${problems}
            path=${below(path, String(index))}
            name=${`${name ?? "item"} ${index + 1}`}
            required=${true}
          />
          <button
            type="button"
            class="quiet icon"
            aria-label=${`Remove ${name ?? "item"} ${index + 1}`}
            onClick=${() => onChange({ items: items.filter((_, at) => at !== index) })}
          >
            ×
          </button>
        </div>
      `,
    )}
    <button
      type="button"
      class="small"
      onClick=${() => onChange({ items: [...items, item(shape)] })}
      data-testid=${`add-${path}`}
    >
      Add an item
    </button>
  `;
}

/** One of several shapes. @param {Given} given */
function Union({ shape, draft, onChange, problems, path = "", name, required }) {
  const choices = shape.choices ?? [];
  const chosen = draft.choice ?? 0;
  const inner = choices[chosen]?.shape();
  const choose = (/** @type {number} */ choice) => {
    const part = choices[choice]?.shape();
    if (part)
      onChange({ ...draft, choice, drafts: { ...draft.drafts, [choice]: draft.drafts?.[choice] ?? draftOf(part) } });
  };
  return html`
    <label class="field">
      <span class="hidden">Kind of ${name ?? "value"}</span>
      <select onChange=${onText((text) => choose(Number(text)))} data-testid=${`kind-${path}`}>
        ${choices.map(({ label }, index) => html`<option value=${index} selected=${index === chosen}>${label}</option>`)}
      </select>
    </label>
    ${inner && inner.kind !== "null" && inner.kind !== "const" && html`<${SchemaField} key=${chosen} shape=${inner} draft=${draft.drafts?.[chosen] ?? draftOf(inner)} onChange=${(/** @type {Draft} */ own) => onChange({ ...draft, drafts: { ...draft.drafts, [chosen]: own } })} problems=${problems} path=${path} name=${choices[chosen].label} required=${required ?? true} top=${inner.kind === "object"} />`}
  `;
}

/** A field of one value. @param {Given} given */
function Line(given) {
  const { shape, required, remove } = given;
  const id = useId();
  const problem = problemOf(given);
  const about = [shape.description && `${id}-help`, problem && `${id}-problem`].filter(Boolean).join(" ") || undefined;
  const isBoolean = shape.kind === "boolean";
  return html`
    <div class="field" data-testid=${`field-${given.path ?? ""}`}>
      ${!isBoolean && html`<label class="label" for=${id}>${labelOf(given)}<${OwnName} given=${given} />${required === false && html` <span class="optional">optional</span>`}</label>`}
      ${
        isBoolean
          ? html`<label class="check">
              <${Input} given=${given} id=${id} about=${about} invalid=${false} />
              ${labelOf(given)}${remove && html` <button type="button" class="quiet small" onClick=${remove}>Leave out</button>`}</label>
            `
          : null
      }
      ${shape.description && html`<span class="help" id=${`${id}-help`}>${shape.description}</span>`}
      ${!isBoolean && html`<${Input} given=${given} id=${id} about=${about} invalid=${Boolean(problem)} />`}
      ${problem && html`<p class="field-problem" id=${`${id}-problem`} role="alert">${problem}</p>`}
    </div>
  `;
}

/** The browser's own inputs for some formats. @type {Record<string, string>} */
const TYPES = { date: "date", email: "email", uri: "url", password: "password" };

/** @param {{given: Given, id: string, about?: string, invalid: boolean}} given */
function Input({ given, id, about, invalid }) {
  const { shape, draft, onChange, required } = given;
  const attributes = { id, "aria-describedby": about, "aria-invalid": invalid, "aria-required": required };
  const typed = onText((text) => onChange({ text }));
  switch (shape.kind) {
    case "boolean":
      return html`<input
        type="checkbox"
        ...${attributes}
        aria-required=${undefined}
        checked=${draft.on === true}
        onChange=${onTick((on) => onChange({ on: on }))}
      />`;
    case "enum":
      return html`
        <select ...${attributes} onChange=${onText((text) => onChange({ choice: Number(text) }))}>
          <option value="-1" selected=${(draft.choice ?? -1) < 0}>${required ? "Choose…" : "Not set"}</option>
          ${(shape.options ?? []).map((option, index) => html`<option value=${index} selected=${index === draft.choice}>${shape.labels?.[index] ?? (typeof option === "string" ? option : JSON.stringify(option))}</option>`)}
        </select>
      `;
    case "number":
    case "integer":
      return html`<input
        type="text"
        inputmode=${shape.kind === "integer" && (shape.bounds?.least ?? -1) >= 0 ? "numeric" : "text"}
        ...${attributes}
        value=${draft.text ?? ""}
        onInput=${typed}
      />`;
    case "string":
      if (!shape.format && (shape.bounds?.most ?? Infinity) > 200)
        return html`<textarea rows=${rows(draft.text)} ...${attributes} value=${draft.text ?? ""} onInput=${typed} />`;
      return html`<input
        type=${TYPES[shape.format ?? ""] ?? "text"}
        ...${attributes}
        value=${draft.text ?? ""}
        onInput=${typed}
      />`;
    case "any":
      return html`<textarea
        class="code"
        rows=${Math.max(2, rows(draft.text))}
        placeholder="JSON"
        spellcheck=${false}
        ...${attributes}
        value=${draft.text ?? ""}
        onInput=${typed}
      />`;
    default:
      return html`<output id=${id}>${JSON.stringify(shape.options?.[0] ?? null)}</output>`;
  }
}

/** The height of a text box: that of its text, up to a maximum. @param {string | undefined} text */
const rows = (text) => Math.min(12, (text ?? "").split("\n").length);

// Adds one server by a form.

import { post } from "../api.js";
import { emptyForm, entryOf, formOf, hiddenIn } from "../entry.js";
import { html, useEffect, useState } from "../html.js";
import { EntryFields } from "../parts/entry-fields.js";
import { useAction } from "../parts/loaded.js";
import { Trouble } from "../parts/problem.js";
import { SaveEntry } from "../parts/save-entry.js";
import { ScopeField } from "../parts/scope-field.js";
import { go } from "../router.js";
import { onText } from "../parts/input.js";

/** @param {{from?: Api.Server}} given the server that is cloned */
export function AddForm({ from }) {
  const [name, setName] = useState(from ? `${from.name}-copy` : "");
  const [scope, setScope] = useState("user");
  const [form, setForm] = useState(() => (from?.config ? formOf(from.config) : emptyForm()));
  const [bad, setBad] = useState({ problem: "", field: "" });
  const [edited, setEdited] = useState(/** @type {Api.Edited | null} */ (null));
  const add = (/** @type {boolean} */ dryRun) => {
    const outcome = entryOf(form);
    if ("problem" in outcome) throw new Error(outcome.problem);
    return post("/api/v1/servers", { name: name.trim(), scope, entry: outcome.entry, dry_run: dryRun });
  };
  const preview = useAction(async () => setEdited(await add(true)));
  useEffect(() => setBad({ problem: "", field: "" }), [form, name]);
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    const problem = problemOf();
    if (problem) setBad(problem);
    else preview.run();
  };
  const problemOf = () => {
    if (!name.trim()) return { problem: "a name is needed, such as files", field: "name" };
    const outcome = entryOf(form);
    if ("problem" in outcome) return outcome;
    const hidden = hiddenIn(outcome.entry);
    return hidden.length > 0
      ? {
          problem: `the value of ${hidden.join(" and ")} is hidden: write it anew, or a placeholder such as \${TOKEN}`,
          field: "env",
        }
      : null;
  };
  return html`
    <form class="sheet" onSubmit=${submit} data-testid="add-form">
      <div class="two">
        <label class="field">
          <span class="label">Name</span>
          <input
            class="code"
            autocomplete="off"
            aria-invalid=${bad.field === "name"}
            placeholder="files"
            value=${name}
            onInput=${onText(setName)}
            data-testid="name"
        /></label>
        <${ScopeField} scope=${scope} onChange=${setScope} />
      </div>
      <${EntryFields} form=${form} onChange=${setForm} bad=${bad.field} />
      ${bad.problem && html`<p class="notice bad" role="alert" data-testid="form-problem">${bad.problem}</p>`}
      <${Trouble} error=${preview.error} />
      <p class="actions">
        <button type="submit" class="primary" disabled=${preview.busy} data-testid="review">Review the change</button>
      </p>
      ${edited && html`<${SaveEntry} edited=${edited} save=${() => add(false)} onClose=${() => setEdited(null)} onDone=${() => go(["servers", edited.name])} />`}
    </form>
  `;
}

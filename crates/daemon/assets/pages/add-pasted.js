// Adds servers from pasted text.

import { post } from "../api.js";
import { json } from "../format.js";
import { html, useState } from "../html.js";
import { useAction } from "../parts/loaded.js";
import { Trouble } from "../parts/problem.js";
import { SaveEntry } from "../parts/save-entry.js";
import { ScopeField } from "../parts/scope-field.js";
import { Text } from "../parts/text.js";
import { parsePasted } from "../pasted.js";
import { hashOf } from "../router.js";
import { servers } from "../world.js";
import { onText } from "../parts/input.js";

const EXAMPLE = `{
  "mcpServers": {
    "files": { "command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "."] }
  }
}`;

export function AddPasted() {
  const [text, setText] = useState("");
  const [scope, setScope] = useState("user");
  const outcome = parsePasted(text);
  return html`
    <div class="sheet">
      <label class="field">
        <span class="label">An entry, or a file with entries</span>
        <span class="help">As README files show them: with <code>mcpServers</code>, with <code>servers</code>, or one entry</span>
        <textarea
          class="code"
          rows="10"
          spellcheck=${false}
          placeholder=${EXAMPLE}
          value=${text}
          onInput=${onText(setText)}
          data-testid="pasted"
        />
      </label>
      <${ScopeField} scope=${scope} onChange=${setScope} />
      ${text.trim() !== "" && "problem" in outcome && html`<p class="notice bad" role="alert" data-testid="form-problem">${outcome.problem}</p>`}
      ${"found" in outcome && outcome.found.map((one, index) => html`<${Found} key=${`${index} ${one.name}`} found=${one} scope=${scope} />`)}
    </div>
  `;
}

/** @param {{found: import("../pasted.js").Found, scope: string}} given */
function Found({ found, scope }) {
  const [name, setName] = useState(found.name);
  const [edited, setEdited] = useState(/** @type {Api.Edited | null} */ (null));
  const isThere = servers.value?.some((server) => server.name === name) ?? false;
  const [saved, setSaved] = useState("");
  const add = (/** @type {boolean} */ dryRun) =>
    post("/api/v1/servers", { name: name.trim(), scope, entry: found.entry, dry_run: dryRun });
  const preview = useAction(async () => setEdited(await add(true)));
  return html`
    <section class="panel" data-testid="found" data-name=${name}>
      <label class="field">
        <span class="label">Name</span><input class="code" value=${name} onInput=${onText(setName)}
      /></label>
      <${Text} text=${json(found.entry)} label=${`Entry of ${name}`} />
      ${saved && html`<p class="good-text">Saved. <a href=${hashOf(["servers", saved])}>Look at ${saved}</a></p>`}
      ${!saved && isThere && html`<p class="notice warn">There is a server of this name already: choose another one, or edit that one.</p>`}
      <${Trouble} error=${preview.error} />
      ${!saved && html`<button type="button" class="primary" disabled=${preview.busy || !name.trim() || isThere} onClick=${() => preview.run()} data-testid="review">Review the change</button>`}
      ${edited && html`<${SaveEntry} edited=${edited} save=${() => add(false)} onClose=${() => setEdited(null)} onDone=${() => setSaved(edited.name)} />`}
    </section>
  `;
}

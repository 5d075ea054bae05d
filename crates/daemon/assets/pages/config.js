// The configuration files, their problems, and a box in which the user can check text before saving it.

import { get, post } from "../api.js";
import { json } from "../format.js";
import { html, useState } from "../html.js";
import { onText } from "../parts/input.js";
import { useAction, useLoaded } from "../parts/loaded.js";
import { Head } from "../parts/page.js";
import { Problems, Trouble } from "../parts/problem.js";
import { Text, Waiting } from "../parts/text.js";
import { configTurn } from "../world.js";

export function Config() {
  const loaded = useLoaded((signal) => get("/api/v1/config", signal), [configTurn.value]);
  const found = /** @type {Api.Config | null} */ (loaded.data);
  return html`
    <${Head}
      title="Configuration"
      help="configuration"
      about="The files that configure servers; later ones override earlier ones. Secrets in them are hidden."
    />
    <${Trouble} error=${loaded.error} again=${loaded.again} />
    ${!found && !loaded.error && html`<${Waiting} />`} ${found && html`<${Problems} problems=${found.problems} />`}
    ${found && found.problems.length === 0 && html`<p class="good-text" data-testid="no-problems">No problems.</p>`}
    ${found?.files.map((file) => html`<${File} key=${`${file.scope} ${file.path}`} file=${file} />`)}
    ${
      found &&
      Object.keys(found.settings ?? {}).length > 0 &&
      html`<section class="panel">
        <h2>Settings in force</h2>
        <${Text} text=${json(found.settings)} label="Settings in force" />
      </section>`
    }
    ${found && html`<${Validate} />`}
  `;
}

/** @param {{file: Api.ConfigFile}} given */
function File({ file }) {
  const { scope, path, exists, text } = file;
  return html`
    <details
      class="panel file"
      open=${exists && (text ?? "").length < 4000}
      data-testid="file"
      data-status=${exists ? "exists" : "missing"}
    >
      <summary>
        <span class="mark">${scope}</span>${" "}
        <span class="path">${path}</span>${!exists && html` <span class="quiet-text">not there</span>`}
      </summary>
      ${exists && typeof text === "string" && html`<${Text} text=${text} label=${path} tall=${true} />`}
      ${exists && typeof text !== "string" && html`<p class="quiet-text">It cannot be shown; the problem is described above.</p>`}
      ${!exists && html`<p class="quiet-text">Toolrack reads it as soon as it exists.</p>`}
    </details>
  `;
}

function Validate() {
  const [text, setText] = useState("");
  const [kind, setKind] = useState("json");
  const [result, setResult] = useState(/** @type {{ok: boolean, problems: Api.Problem[]} | null} */ (null));
  const check = useAction(() => post("/api/v1/config/validate", { kind, text }));
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    setResult((await check.run()) ?? null);
  };
  const typed = onText((changed) => {
    setText(changed);
    setResult(null);
  });
  return html`
    <form class="panel" onSubmit=${submit} data-testid="validate">
      <h2>Check some text</h2>
      <p class="help">Nothing is saved or started.</p>
      <fieldset class="choice">
        <legend>What it is</legend>
        <label class="check">
          <input type="radio" name="kind" checked=${kind === "json"} onChange=${() => setKind("json")} />
          mcp.json</label>
        <label class="check">
          <input
            type="radio"
            name="kind"
            checked=${kind === "toml"}
            onChange=${() => setKind("toml")}
            data-testid="kind-toml"
          />
          toolrack.toml</label>
      </fieldset>
      <label class="field">
        <span class="label">Text</span>
        <textarea
          class="code"
          rows="8"
          spellcheck=${false}
          value=${text}
          onInput=${typed}
          data-testid="validate-text"
        />
      </label>
      <button type="submit" disabled=${check.busy || text.trim() === ""} data-testid="validate-run">Check</button>
      <${Trouble} error=${check.error} />
      ${result && html`<div role="status" data-testid="validate-result" data-status=${result.ok ? "ok" : "bad"}>${result.ok && html`<p class="good-text">It is fine.</p>`}<${Problems} problems=${result.problems} /></div>`}
    </form>
  `;
}

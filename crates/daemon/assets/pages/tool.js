// One tool: its definition, and a form to call it.

import { get, Refusal } from "../api.js";
import { commandFor } from "../copy.js";
import { json, tokens } from "../format.js";
import { html, useEffect } from "../html.js";
import { CopyButton } from "../parts/copy.js";
import { Findings } from "../parts/findings.js";
import { useLoaded } from "../parts/loaded.js";
import { Head } from "../parts/page.js";
import { stateName, ToolMarks } from "../parts/pill.js";
import { Trouble } from "../parts/problem.js";
import { Questions } from "../parts/questions.js";
import { Result } from "../parts/result.js";
import { SchemaForm, useTyped, valueTyped } from "../parts/schema-form.js";
import { Text, Waiting } from "../parts/text.js";
import { hashOf } from "../router.js";
import { begin, cancel, show, runs } from "../tool-calls.js";
import { questions, servers, toolsTurn } from "../world.js";

/** @param {{server: string, tool: string}} given */
export function Tool({ server, tool }) {
  const path = `/api/v1/tools/${encodeURIComponent(server)}/${encodeURIComponent(tool)}`;
  const state = servers.value?.find(({ name }) => name === server)?.state;
  const loaded = useLoaded((signal) => get(path, signal), [path, state, toolsTurn.value]);
  const about = /** @type {Api.ToolDetail | null} */ (loaded.data);
  const up = { href: hashOf(["servers", server]), label: server };
  if (!about)
    return html`
      <${Head} title=${tool} up=${up} />
      ${loaded.error ? html`<${Away} loaded=${loaded} server=${server} state=${state} />` : html`<${Waiting} />`}
    `;
  return html`
    <${Head} title=${tool} up=${up} about=${about.title !== tool ? about.title : null} />
    <${Away} loaded=${loaded} server=${server} state=${state} />
    <p class="marks">
      <${ToolMarks} annotations=${about.annotations} /><span class="quiet-text">${tokens(about.tokens)} tokens</span>
      <code class="model-name" title="the name that models see">${about.name}</code>
    </p>
    ${about.description && html`<p class="description whole">${about.description}</p>`}
    <${Findings} findings=${about.findings} />
    ${
      about.quarantined &&
      html`<p class="notice warn" data-testid="quarantined">It is in quarantine: ${about.quarantined}. <a href="#/trust">Review</a></p>`
    }
    <${Try} key=${about.definition} tool=${about} />
    <details class="fold">
      <summary>Schemas</summary>
      <h3>Input</h3>
      <${Text} text=${json(about.input_schema)} label="Input schema" />
      ${
        about.output_schema &&
        html`<h3>Output</h3>
          <${Text} text=${json(about.output_schema)} label="Output schema" />`
      }
    </details>
  `;
}

/**
 * Why the page cannot show the tool: its server lists its tools only while it is connected.
 * @param {{loaded: {error: unknown, again: () => void}, server: string, state: string | undefined}} given
 */
function Away({ loaded, server, state }) {
  if (!loaded.error) return null;
  const isGone = loaded.error instanceof Refusal && loaded.error.status === 404;
  if (!isGone || state === undefined || state === "connected")
    return html`<${Trouble} error=${loaded.error} again=${loaded.again} />`;
  return html`<p class="notice warn" data-testid="away">
    Its server is not connected (${stateName(state)}), and its tools are known while it is.${" "}
    <a href=${hashOf(["servers", server])}>Look at ${server}</a>
  </p>`;
}

/** @param {{tool: Api.ToolDetail}} given */
function Try({ tool }) {
  const name = `${tool.server}/${tool.tool}`;
  const [typed, setTyped] = useTyped(tool.input_schema, {});
  const run = runs.value.get(name) ?? null;
  useEffect(() => show(name), [name]);
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    const { value, problems } = valueTyped(typed);
    setTyped({ ...typed, touched: true });
    if (problems.length === 0) begin(name, value);
  };
  const isRunning = run?.state === "running";
  return html`
    <form class="panel try" onSubmit=${submit} noValidate data-testid="try">
      <${SchemaForm} typed=${typed} onChange=${setTyped} />
      <p class="actions">
        <button type="submit" class="primary" disabled=${isRunning} data-testid="call">
          ${isRunning ? "Calling…" : "Try it"}
        </button>
        ${isRunning && html`<button type="button" onClick=${() => cancel(name)} data-testid="cancel">Cancel</button>`}
        <${CopyButton}
          text=${() => commandFor(tool.server, tool.tool, valueTyped(typed).value)}
          label="Copy as command"
          testid="copy-command"
        />
      </p>
    </form>
    ${isRunning && html`<${Asked} id=${run.id} tool=${tool} />`}
    <div aria-live="polite">
      ${isRunning && html`<${Going} progress=${run.progress} />`}
      ${run?.state === "failed" && html`<${Trouble} error=${run.error} />`}
      ${run?.state === "cancelled" && html`<p class="notice" data-testid="cancelled">Cancelled. The tool may have done a part of its work.</p>`}
      ${run?.state === "done" && html`<${Result} outcome=${run.outcome} />`}
    </div>
  `;
}

/** The questions that the call waits for, which the user can answer here. @param {{id: string, tool: Api.ToolDetail}} given */
function Asked({ id, tool }) {
  const mine = questions.value.filter(({ server, agent: of, caller }) =>
    caller ? caller.request === id : !of && server === tool.server,
  );
  return html`
    <p class="hidden" role="status">${mine.length > 0 ? "The call waits for your answer." : ""}</p>
    <${Questions} waiting=${mine} inline=${true} />
  `;
}

/** @param {{progress: Api.Progress | null}} given */
function Going({ progress }) {
  return html`
    <div class="panel going" data-testid="progress">
      <label class="field">
        <span class="label">${progress?.message || "Under way…"}</span>
        ${progress?.total ? html`<progress value=${progress.progress} max=${progress.total}></progress>` : html`<progress></progress>`}
      </label>
      ${progress && html`<span class="quiet-text">${progress.progress}${progress.total ? ` of ${progress.total}` : ""}</span>`}
    </div>
  `;
}

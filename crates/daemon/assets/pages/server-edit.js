// Edits the entry of a server, and shows the difference before the daemon writes it.

import { ask, call, serverPath } from "../api.js";
import { entryOf, formOf } from "../entry.js";
import { html, useEffect, useState } from "../html.js";
import { EntryFields } from "../parts/entry-fields.js";
import { useAction, useLoaded } from "../parts/loaded.js";
import { Head } from "../parts/page.js";
import { Trouble } from "../parts/problem.js";
import { SaveEntry } from "../parts/save-entry.js";
import { Waiting } from "../parts/text.js";
import { go, hashOf } from "../router.js";

/** @param {{name: string}} given */
export function ServerEdit({ name }) {
  const loaded = useLoaded(
    async (signal) => {
      const response = await ask(serverPath(name), { signal });
      return { server: /** @type {Api.Server} */ (await response.json()), etag: response.headers.get("etag") };
    },
    [name],
  );
  const up = { href: hashOf(["servers", name]), label: name };
  return html`
    <${Head} title=${`Edit ${name}`} up=${up} about=${loaded.data?.server.source} />
    <${Trouble} error=${loaded.error} again=${loaded.again} />
    ${!loaded.data && !loaded.error && html`<${Waiting} />`}
    ${loaded.data && !loaded.data.server.editable && html`<p class="notice warn">The file with this entry cannot be edited here.</p>`}
    ${loaded.data?.server.editable && html`<${Form} key=${loaded.data.etag} server=${loaded.data.server} etag=${loaded.data.etag} reload=${loaded.again} />`}
  `;
}

/** @param {{server: Api.Server, etag: string | null, reload: () => void}} given */
function Form({ server, etag, reload }) {
  const { name } = server;
  const [form, setForm] = useState(() => formOf(server.config ?? {}));
  const [bad, setBad] = useState({ problem: "", field: "" });
  const [edited, setEdited] = useState(/** @type {Api.Edited | null} */ (null));
  const put = (/** @type {boolean} */ dryRun) => {
    const outcome = entryOf(form);
    if ("problem" in outcome) throw new Error(outcome.problem);
    const headers = etag ? { "If-Match": etag } : undefined;
    return call(serverPath(name), { method: "PUT", headers, body: { entry: outcome.entry, dry_run: dryRun } });
  };
  const preview = useAction(async () => setEdited(await put(true)));
  useEffect(() => setBad({ problem: "", field: "" }), [form]);
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    const outcome = entryOf(form);
    if ("problem" in outcome) setBad(outcome);
    else preview.run();
  };
  const isStale = /** @type {any} */ (preview.error)?.status === 412;
  return html`
    <form class="sheet" onSubmit=${submit} data-testid="edit-form">
      <${EntryFields} form=${form} onChange=${setForm} bad=${bad.field} />
      ${bad.problem && html`<p class="notice bad" role="alert">${bad.problem}</p>`}
      <${Trouble} error=${preview.error} again=${isStale ? reload : null} />
      <p class="actions">
        <button type="submit" class="primary" disabled=${preview.busy} data-testid="review">Review the change</button>
        <a class="button" href=${hashOf(["servers", name])}>Cancel</a>
      </p>
      ${edited && html`<${SaveEntry} edited=${edited} save=${() => put(false)} onClose=${() => setEdited(null)} onDone=${() => go(["servers", name])} />`}
    </form>
  `;
}

// The resources of one server, and their contents.

import { Description } from "../parts/description.js";
import { get, post, serverPath } from "../api.js";
import { html, useState } from "../html.js";
import { dataAddress } from "../links.js";
import { useAction, useLoaded } from "../parts/loaded.js";
import { Trouble } from "../parts/problem.js";
import { Empty, Text, Waiting } from "../parts/text.js";
import { onText } from "../parts/input.js";

/** @param {{server: Api.Server}} given */
export function ServerResources({ server }) {
  const { name, state } = server;
  const loaded = useLoaded((signal) => get(serverPath(name, "/resources"), signal), [name, state]);
  const [opened, setOpened] = useState("");
  const read = useAction((/** @type {string} */ uri) => post(serverPath(name, "/resources/read"), { uri }));
  const [contents, setContents] = useState(/** @type {Api.ResourceContents[]} */ ([]));
  const open = async (/** @type {string} */ uri) => {
    setOpened(uri);
    setContents([]);
    setContents((await read.run(uri))?.contents ?? []);
  };
  if (!loaded.data)
    return loaded.error ? html`<${Trouble} error=${loaded.error} again=${loaded.again} />` : html`<${Waiting} />`;
  const { resources, templates } = /** @type {Api.Resources} */ (loaded.data);
  if (resources.length + templates.length === 0)
    return html`<${Empty} title="No resources"><p>The server offers none.</p><//>`;
  return html`
    <ul class="tools" data-testid="resources">
      ${resources.map(
        (resource) => html`
          <li data-testid="resource">
            <p class="tool-name">
              <strong>${resource.title || resource.name}</strong>
              ${resource.mimeType && html`<span class="quiet-text">${resource.mimeType}</span>`}
              <button
                type="button"
                disabled=${read.busy}
                onClick=${() => open(resource.uri)}
                aria-label=${`Read ${resource.title || resource.name}`}
              >
                Read
              </button>
            </p>
            <p class="path">${resource.uri}</p>
            ${resource.description && html`<${Description} text=${resource.description} />`}
            ${opened === resource.uri && html`<${Contents} contents=${contents} />`}
            ${opened === resource.uri && html`<${Trouble} error=${read.error} />`}
          </li>
        `,
      )}
    </ul>
    ${templates.map((template) => html`<${Template} key=${template.uriTemplate} template=${template} open=${open} busy=${read.busy} />`)}
    ${
      opened &&
      !resources.some(({ uri }) => uri === opened) &&
      html`<p class="path">${opened}</p>
        <${Contents} contents=${contents} /><${Trouble} error=${read.error} />`
    }
  `;
}

/** @param {{template: Api.Template, open: (uri: string) => void, busy: boolean}} given */
function Template({ template, open, busy }) {
  const [uri, setUri] = useState(template.uriTemplate);
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    open(uri);
  };
  return html`
    <form class="panel" onSubmit=${submit} data-testid="template">
      <label class="field">
        <span class="label">${template.title || template.name}</span>
        ${template.description && html`<span class="help">${template.description}</span>`}
        <input class="code" value=${uri} onInput=${onText(setUri)} />
      </label>
      <button type="submit" disabled=${busy || uri.includes("{")}>Read</button>
    </form>
  `;
}

/** @param {{contents: Api.ResourceContents[]}} given */
export function Contents({ contents }) {
  return html`<div data-testid="contents">${contents.map((one) => html`<${Content} one=${one} />`)}</div>`;
}

/** @param {{one: Api.ResourceContents}} given */
function Content({ one }) {
  if (typeof one.text === "string") return html`<${Text} text=${one.text} label=${`Content of ${one.uri}`} />`;
  const picture = dataAddress(one.mimeType, one.blob, "picture");
  if (picture) return html`<img class="result-image" src=${picture} alt=${`Content of ${one.uri}`} />`;
  return html`<p class="quiet-text">
    ${one.mimeType ?? "Data"} of about ${Math.round(((one.blob?.length ?? 0) * 3) / 4)} bytes, which is not shown here.
  </p>`;
}

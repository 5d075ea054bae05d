// The prompts of one server, filled in.

import { Description } from "../parts/description.js";
import { get, post, serverPath } from "../api.js";
import { html, useState } from "../html.js";
import { useAction, useLoaded } from "../parts/loaded.js";
import { Trouble } from "../parts/problem.js";
import { Block } from "../parts/result.js";
import { Empty, Waiting } from "../parts/text.js";
import { onText } from "../parts/input.js";

/** @param {{server: Api.Server}} given */
export function ServerPrompts({ server }) {
  const { name, state } = server;
  const loaded = useLoaded((signal) => get(serverPath(name, "/prompts"), signal), [name, state]);
  if (!loaded.data)
    return loaded.error ? html`<${Trouble} error=${loaded.error} again=${loaded.again} />` : html`<${Waiting} />`;
  const prompts = /** @type {Api.Prompt[]} */ (loaded.data.prompts);
  if (prompts.length === 0) return html`<${Empty} title="No prompts"><p>The server offers none.</p><//>`;
  return html`${prompts.map((prompt) => html`<${Prompt} key=${prompt.name} server=${name} prompt=${prompt} />`)}`;
}

/** @param {{server: string, prompt: Api.Prompt}} given */
function Prompt({ server, prompt }) {
  const [given, setGiven] = useState(/** @type {Record<string, string>} */ ({}));
  const [result, setResult] = useState(/** @type {Api.PromptResult | null} */ (null));
  const fill = useAction(() => {
    const filled = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== ""));
    return post(serverPath(server, "/prompts/get"), { name: prompt.name, arguments: filled });
  });
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    setResult((await fill.run()) ?? null);
  };
  const wanted = prompt.arguments ?? [];
  return html`
    <form class="panel" onSubmit=${submit} data-testid="prompt" data-name=${prompt.name}>
      <h2>${prompt.title || prompt.name}</h2>
      ${prompt.description && html`<${Description} text=${prompt.description} />`}
      ${wanted.map(
        (argument) => html`
          <label class="field">
            <span class="label">
              ${argument.name}${argument.required ? "" : html` <span class="optional">optional</span>`}</span>
            ${argument.description && html`<span class="help">${argument.description}</span>`}
            <input
              required=${argument.required}
              value=${given[argument.name] ?? ""}
              onInput=${onText((text) => setGiven({ ...given, [argument.name]: text }))}
            />
          </label>
        `,
      )}
      <button type="submit" disabled=${fill.busy}>Fill in</button>
      <${Trouble} error=${fill.error} />
      ${
        result &&
        html`<div data-testid="messages">
          ${result.messages.map(
            ({ role, content }) =>
              html`<div class="message">
                <p class="role">${role}</p>
                <${Block} block=${content} />
              </div>`,
          )}
        </div>`
      }
    </form>
  `;
}

// The values that servers need from the person at this page, who gives and removes them here. No value is ever shown.

import { call, get } from "../api.js";
import { ago, moment } from "../format.js";
import { html, useState } from "../html.js";
import { isMember, may } from "../me.js";
import { Confirm } from "../parts/dialog.js";
import { onText } from "../parts/input.js";
import { useAction, useLoaded } from "../parts/loaded.js";
import { Head } from "../parts/page.js";
import { Trouble } from "../parts/problem.js";
import { say } from "../parts/say.js";
import { OwnServers } from "../parts/own-servers.js";
import { Empty, Waiting } from "../parts/text.js";
import { configTurn } from "../world.js";

/** @param {string} name */
const pathOf = (name) => `/api/v1/me/credentials/${encodeURIComponent(name)}`;

/** @param {{wanted: string | null}} given the value that a server waits for */
export function Credentials({ wanted }) {
  const loaded = useLoaded((signal) => get("/api/v1/me/credentials", signal), [configTurn.value]);
  const found = /** @type {{credentials: Api.MyCredential[]} | null} */ (loaded.data);
  const all = found?.credentials ?? [];
  const shown = wanted === null ? all : all.filter((one) => one.name === wanted);
  return html`
    <${Head}
      title="My credentials"
      help="credentials"
      about="Values that servers need from you personally. Only your own servers receive them, and they are never shown again."
    />
    <${Trouble} error=${loaded.error} again=${loaded.again} />
    ${!found && !loaded.error && html`<${Waiting} />`}
    ${
      found &&
      shown.length === 0 &&
      html`<${Empty} title=${wanted === null ? "No server needs a value of yours" : `No server of yours needs ${wanted}`} testid="no-credentials">
        <p>A server whose entry has <code>${"${user:NAME}"}</code> asks for one.</p><//>
      `
    }
    ${shown.map((one) => html`<${Credential} key=${one.name} credential=${one} changed=${loaded.again} />`)}
    ${wanted === null && isMember() && may("operate") && html`<${OwnServers} />`}
    ${wanted !== null && found && html`<p><a href="#/credentials">All of my credentials</a></p>`}
  `;
}

/** @param {{credential: Api.MyCredential, changed: () => void}} given */
function Credential({ credential, changed }) {
  const { name, servers, given, given_at: at } = credential;
  const [value, setValue] = useState("");
  const [asking, setAsking] = useState(false);
  const give = useAction(async () => {
    await call(pathOf(name), { method: "PUT", body: { value } });
    setValue("");
    say(`Gave ${name}`);
    changed();
  });
  const remove = async () => {
    await call(pathOf(name), { method: "DELETE" });
    say(`Removed ${name}`);
    changed();
  };
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    give.run();
  };
  return html`
    <article class="panel" data-testid="credential" data-name=${name} data-status=${given ? "given" : "missing"}>
      <header class="question-head">
        <h2>${name}</h2>
        <span class=${given ? "mark" : "mark warn"}>${given ? "given" : "missing"}</span>
      </header>
      <p>
        ${servers.length > 0 ? html`For ${servers.join(", ")}.` : "No server needs it any more."}
        ${at && html` Given <time datetime=${at} title=${moment(at)}>${ago(at)}</time>.`}
      </p>
      <${Trouble} error=${give.error} />
      ${
        servers.length > 0 &&
        html`<form onSubmit=${submit}>
          <label class="field">
            <span class="label">${given ? "Another value" : "Value"}</span>
            <input
              type="password"
              class="code"
              autocomplete="off"
              spellcheck=${false}
              value=${value}
              onInput=${onText(setValue)}
              data-testid="value"
            />
          </label>
          <p class="actions">
            <button type="submit" class="primary" disabled=${!value || give.busy} data-testid="give">Give it</button>
          </p>
        </form>`
      }
      ${
        given &&
        html`<p class="actions">
          <button type="button" onClick=${() => setAsking(true)} data-testid="remove" aria-label=${`Remove ${name}`}>
            Remove
          </button>
        </p>`
      }
      ${
        asking &&
        html`<${Confirm} title=${`Remove ${name}?`} action="Remove" danger=${true} onClose=${() => setAsking(false)} doIt=${remove}>
          <p>The servers that use it are stopped, and will ask for it again.</p>
        <//>`
      }
    </article>
  `;
}

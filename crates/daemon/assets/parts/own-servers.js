// The servers that a member of a team adds for themselves.

import { call, get } from "../api.js";
import { html, useState } from "../html.js";
import { Confirm } from "./dialog.js";
import { onText } from "./input.js";
import { useAction, useLoaded } from "./loaded.js";
import { Trouble } from "./problem.js";
import { say } from "./say.js";
import { refresh } from "../world.js";

/** @param {string} name */
const pathOf = (name) => `/api/v1/me/servers/${encodeURIComponent(name)}`;

/** Shows nothing in a tenant whose members add no servers. */
export function OwnServers() {
  const loaded = useLoaded((signal) => get("/api/v1/me/servers", signal), []);
  const found = /** @type {{most: number, servers: Api.OwnServer[]} | null} */ (loaded.data);
  if (!found || found.most === 0) return html`<${Trouble} error=${loaded.error} again=${loaded.again} />`;
  const changed = () => {
    loaded.again();
    refresh("servers", "tools", "overview");
  };
  return html`
    <section class="panel" data-testid="own-servers">
      <h2>Servers of your own</h2>
      <p class="quiet-text">Only you have them. You may add ${found.most}.</p>
      <ul class="rows">
        ${found.servers.map((server) => html`<${OwnServer} key=${server.name} server=${server} changed=${changed} />`)}
      </ul>
      ${found.servers.length < found.most && html`<${Form} changed=${changed} />`}
    </section>
  `;
}

/** @param {{server: Api.OwnServer, changed: () => void}} given */
function OwnServer({ server, changed }) {
  const { name, url, headers } = server;
  const [asking, setAsking] = useState(false);
  const remove = async () => {
    await call(pathOf(name), { method: "DELETE" });
    say(`Removed ${name}`);
    changed();
  };
  return html`
    <li data-testid="own-server" data-name=${name}>
      <div>
        <p>${name}</p>
        <p class="quiet-text"><code>${url}</code>${headers.length > 0 && ` with ${headers.join(", ")}`}</p>
      </div>
      <button type="button" onClick=${() => setAsking(true)} aria-label=${`Remove ${name}`} data-testid="remove-own-server">Remove</button>
      ${
        asking &&
        html`<${Confirm} title=${`Remove ${name}?`} action="Remove" danger=${true} onClose=${() => setAsking(false)} doIt=${remove}>
          <p>Its tools are gone for all clients that act in your name.</p>
        <//>`
      }
    </li>
  `;
}

/** @param {{changed: () => void}} given */
function Form({ changed }) {
  const [name, setName] = useState("");
  const [url, setUrl] = useState("");
  const [header, setHeader] = useState("");
  const [value, setValue] = useState("");
  const add = useAction(async () => {
    const headers = header.trim() ? { [header.trim()]: value } : {};
    await call(pathOf(name.trim()), { method: "PUT", body: { url: url.trim(), headers } });
    say(`Added ${name.trim()}`);
    for (const clear of [setName, setUrl, setHeader, setValue]) clear("");
    changed();
  });
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    add.run();
  };
  return html`
    <form onSubmit=${submit} aria-label="Add a server">
      <${Trouble} error=${add.error} />
      <${Field} label="Name" value=${name} set=${setName} testid="own-name" />
      <${Field} label="Address" value=${url} set=${setUrl} testid="own-url" placeholder="https://mcp.example.com/mcp" />
      <${Field} label="Header, if it needs one" value=${header} set=${setHeader} testid="own-header" placeholder="Authorization" />
      ${header.trim() && html`<${Field} label=${`Value of ${header.trim()}`} value=${value} set=${setValue} testid="own-value" secret=${true} />`}
      <p class="actions">
        <button type="submit" disabled=${!name.trim() || !url.trim() || add.busy} data-testid="add-own-server">Add</button>
      </p>
    </form>
  `;
}

/** @param {{label: string, value: string, set: (text: string) => void, testid: string, placeholder?: string, secret?: boolean}} given */
function Field({ label, value, set, testid, placeholder = "", secret = false }) {
  return html`
    <label class="field">
      <span class="label">${label}</span>
      <input
        type=${secret ? "password" : "text"}
        class="code"
        autocomplete="off"
        spellcheck=${false}
        placeholder=${placeholder}
        value=${value}
        onInput=${onText(set)}
        data-testid=${testid}
      />
    </label>
  `;
}

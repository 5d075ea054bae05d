// The start page of a person who uses the tools of a team: how to connect a client, questions that wait, and the servers.

import { get, post, serverPath } from "../api.js";
import { counted } from "../format.js";
import { html } from "../html.js";
import { may, me } from "../me.js";
import { CopyButton } from "../parts/copy.js";
import { useAction, useLoaded } from "../parts/loaded.js";
import { Head } from "../parts/page.js";
import { stateName } from "../parts/pill.js";
import { Trouble } from "../parts/problem.js";
import { Questions } from "../parts/questions.js";
import { OwnServers } from "../parts/own-servers.js";
import { Waiting } from "../parts/text.js";
import { isSignedIn } from "../token.js";
import { questions, refresh, replaceServer, servers } from "../world.js";

/** The address to which MCP clients of the team connect. */
const endpoint = () => new URL("/mcp", location.href).href;

/** The command that connects each client. @returns {{client: string, command: string}[]} */
const commands = () => [
  { client: "Claude Code", command: `claude mcp add --transport http tools ${endpoint()}` },
  { client: "Codex", command: `codex mcp add tools --url ${endpoint()}` },
  { client: "Toolrack", command: `toolrack login --to ${location.origin}` },
];

export function Home() {
  const person = me.value;
  if (!person) return html`<${Head} title="Home" /><${Waiting} />`;
  return html`
    <${Head} title=${`Hello, ${person.name}`} help="teams" about=${`You use the tools of ${person.tenant}.`} />
    ${may("use") && questions.value.length > 0 && html`<section aria-label="Waiting for you"><${Questions} waiting=${questions.value} /></section>`}
    ${may("use") && html`<${Connect} />`}
    <${Servers} />
    ${may("use") && html`<${OwnServers} />`}
  `;
}

function Connect() {
  const how = isSignedIn.value
    ? "The client opens this site in your browser, and asks whether it may act in your name. It needs no token."
    : "The client needs the token with which you opened this page.";
  return html`
    <section class="panel" data-testid="connect">
      <h2>Connect a client</h2>
      <p>${how}</p>
      <dl class="facts">
        <div>
          <dt>Address</dt>
          <dd><code data-testid="endpoint">${endpoint()}</code> <${CopyButton} text=${endpoint} /></dd>
        </div>
        <${Profiles} />
        ${
          isSignedIn.value &&
          commands().map(
            ({ client, command }) => html`
              <div>
                <dt>${client}</dt>
                <dd><code>${command}</code> <${CopyButton} text=${command} testid="copy-command" /></dd>
              </div>
            `,
          )
        }
      </dl>
    </section>
  `;
}

/** Addresses at which a client has only some of the tools. */
function Profiles() {
  const { data } = useLoaded((signal) => get("/api/v1/profiles", signal), []);
  const found = /** @type {{profiles: Api.Profile[]} | null} */ (data);
  return html`${(found?.profiles ?? []).map(({ name, mcp, tools }) => {
    const address = () => new URL(mcp, location.href).href;
    return html`
      <div data-testid="profile" data-name=${name}>
        <dt>Only ${name} <span class="quiet-text">${counted(tools.length, "tool")}</span></dt>
        <dd><code>${address()}</code> <${CopyButton} text=${address} /></dd>
      </div>
    `;
  })}`;
}

function Servers() {
  const list = servers.value;
  if (!list) return html`<${Waiting} />`;
  return html`
    <section class="panel" data-testid="home-servers">
      <h2>${counted(list.length, "server")}</h2>
      <ul class="rows">
        ${list.map((server) => html`<${Row} key=${server.name} server=${server} />`)}
      </ul>
      <p><a href="#/tools">All tools</a></p>
    </section>
  `;
}

/** A member may reconnect a server that runs for them alone. @param {{server: Api.Server}} given */
function Row({ server: { name, state, own } }) {
  const again = useAction(async () => {
    replaceServer(await post(serverPath(name, "/reconnect")));
    refresh("servers");
  });
  // The button stays during an attempt: otherwise it could disappear just when the user clicks.
  const canConnect = own && may("use") && !["needs_auth", "pending_trust", "disabled", "broken"].includes(state);
  return html`
    <li data-name=${name}>
      <div>${name} <span class="quiet-text">${stateName(state)}</span></div>
      ${
        canConnect &&
        html`<button type="button" disabled=${again.busy} onClick=${() => again.run()} aria-label=${`Reconnect ${name}`} data-testid="reconnect-own">
          Reconnect
        </button>`
      }
      <${Trouble} error=${again.error} />
    </li>
  `;
}

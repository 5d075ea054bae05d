// All servers: the state of each, the file that configures it, and its tools.

import { count, software, tokens } from "../format.js";
import { html } from "../html.js";
import { ServerFindings } from "../parts/findings.js";
import { Head } from "../parts/page.js";
import { Mark, Reason, stateName, StatePill } from "../parts/pill.js";
import { Problems } from "../parts/problem.js";
import { ServerActions } from "../parts/server-actions.js";
import { Empty, spoken, Waiting } from "../parts/text.js";
import { hashOf, place } from "../router.js";
import { problems, servers } from "../world.js";

export function Servers() {
  const all = servers.value;
  const { state } = place.value.query;
  const shown = (all ?? []).filter((server) => !state || server.state === state);
  return html`
    <${Head} title="Servers" help="servers">
      <a class="button" href="#/add/import">Import</a>
      <a class="button" href="#/add/json">Paste JSON</a>
      <a class="button primary" href="#/add/form" data-testid="add">Add a server</a>
    <//>
    <${Problems} problems=${problems.value} />
    ${state && html`<p class="filter" data-testid="filter">Only those that are ${stateName(state)}. <a href="#/servers">Show all</a></p>`}
    ${!all && html`<${Waiting} />`}
    ${all && shown.length === 0 && (state ? html`<p class="quiet-text">None right now.</p>` : html`<${None} />`)}
    <ul class="servers" data-testid="servers">
      ${shown.map((server) => html`<${Row} key=${server.name} server=${server} />`)}
    </ul>
  `;
}

function None() {
  return html`
    <${Empty} title="No servers yet">
      <p>Import what your other programs have, paste an entry, or run <code>toolrack add NAME -- COMMAND</code>.</p>
      <p class="actions">
        <a class="button primary" href="#/add/import">Import</a><a class="button" href="#/add/form">Add a server</a>
      </p>
    <//>
  `;
}

/** @param {{server: Api.Server}} given */
function Row({ server }) {
  return html`
    <li class="server" data-testid="server" data-name=${server.name} data-status=${server.state}>
      <div class="server-main">
        <h2><a href=${hashOf(["servers", server.name])}>${server.name}</a></h2>
        <${StatePill} state=${server.state} />
        <span class="marks">
          ${server.transport && html`<${Mark}>${server.transport}<//>`}
          ${server.era && html`<${Mark} title=${server.protocol_version ? `MCP ${server.protocol_version}` : undefined}>${server.era}<//>`}
          ${server.server_info && html`<span class="quiet-text">${software(server.server_info)}</span>`}
          <${ServerFindings} server=${server} />
        </span>
      </div>
      <${ServerActions} server=${server} />
      <${Reason} server=${server} />
      ${server.warnings.map((warning) => html`<p class="reason warn">${spoken(warning)}</p>`)}
      <dl class="facts">
        ${
          hasTools(server) &&
          html`<div>
              <dt>Tools</dt>
              <dd data-testid="tool-count">${toolsOf(server)}</dd>
            </div>
            <div>
              <dt>Tokens</dt>
              <dd>${tokens(server.tokens)}</dd>
            </div>`
        }
        <div class="from">
          <dt>From</dt>
          <dd><${Source} server=${server} /></dd>
        </div>
      </dl>
    </li>
  `;
}

/** Whether its tools are known. @param {Api.Server} server */
const hasTools = ({ state, tools, tools_hidden: hidden }) => state === "connected" || tools + hidden > 0;

/** How many of its tools are offered. @param {Api.Server} server */
export function toolsOf({ tools, tools_hidden: hidden }) {
  return hidden > 0 ? `${count(tools)} of ${count(tools + hidden)}` : count(tools);
}

/** Where a server is configured. @param {{server: Api.Server}} given */
export function Source({ server }) {
  const { scope, source, line } = server;
  return html`<span data-testid="source">
    <span>${scope}</span>${source && html` <span class="path">${source}${line ? `:${line}` : ""}</span>`}</span>
  `;
}

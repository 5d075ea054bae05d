// One server: its head, and the tab that is shown.

import { software, tokens } from "../format.js";
import { html } from "../html.js";
import { ServerFindings } from "../parts/findings.js";
import { Head, Tabs } from "../parts/page.js";
import { Mark, Reason, StatePill } from "../parts/pill.js";
import { ServerActions } from "../parts/server-actions.js";
import { Empty, spoken, Text, Waiting } from "../parts/text.js";
import { hashOf } from "../router.js";
import { servers } from "../world.js";
import { ServerConfig } from "./server-config.js";
import { ServerHealth } from "./server-health.js";
import { ServerHistory } from "./server-history.js";
import { ServerLogs } from "./server-logs.js";
import { ServerPrompts } from "./server-prompts.js";
import { ServerResources } from "./server-resources.js";
import { ServerTools } from "./server-tools.js";
import { Source, toolsOf } from "./servers.js";

/** @type {Record<string, {label: string, show: (given: {server: Api.Server}) => unknown}>} */
const TABS = {
  tools: { label: "Tools", show: ServerTools },
  resources: { label: "Resources", show: ServerResources },
  prompts: { label: "Prompts", show: ServerPrompts },
  config: { label: "Config", show: ServerConfig },
  logs: { label: "Logs", show: ServerLogs },
  history: { label: "History", show: ServerHistory },
  health: { label: "Health", show: ServerHealth },
};

/** @param {{name: string, tab: string}} given */
export function Server({ name, tab }) {
  const server = servers.value?.find((one) => one.name === name);
  const up = { href: "#/servers", label: "Servers" };
  if (!servers.value) return html`<${Head} title=${name} up=${up} /><${Waiting} />`;
  if (!server) {
    return html`
      <${Head} title=${name} up=${up} />
      <${Empty} title="There is no server of this name" testid="no-server">
        <p>It may have been removed or renamed. <a href="#/servers">All servers</a></p><//>
    `;
  }
  // The daemon sends entries only to users who operate the servers.
  const tabs = Object.entries(TABS).filter(([id]) => id !== "config" || server.config);
  const shown = tabs.some(([id]) => id === tab) ? tab : "tools";
  return html`
    <${Head} title=${name} up=${up}><${ServerActions} server=${server} /><//>
    <${About} server=${server} />
    <${Tabs}
      label=${`About ${name}`}
      tabs=${tabs.map(([id, { label }]) => ({ id, label, href: hashOf(["servers", name, id]), current: id === shown, count: id === "tools" ? server.tools : null }))}
    />
    <section class="tab" aria-label=${TABS[shown].label} data-testid=${`panel-${shown}`}>
      <${TABS[shown].show} key=${shown} server=${server} />
    </section>
  `;
}

/** @param {{server: Api.Server}} given */
function About({ server }) {
  const { transport, era, protocol_version: version, server_info: info, instructions } = server;
  return html`
    <div class="server-about" data-testid="server" data-name=${server.name} data-status=${server.state}>
      <p class="marks">
        <${StatePill} state=${server.state} />
        ${transport && html`<${Mark}>${transport}<//>`}
        ${era && html`<${Mark}>${era}${version ? ` · MCP ${version}` : ""}<//>`}
        ${info && html`<span class="quiet-text">${software(info)}</span>`}
        ${server.tools > 0 && html`<span class="quiet-text">${toolsOf(server)} tools, ${tokens(server.tokens)} tokens</span>`}
        <${ServerFindings} server=${server} />
      </p>
      <${Reason} server=${server} />
      ${server.warnings.map((warning) => html`<p class="reason warn">${spoken(warning)}</p>`)}
      <p class="quiet-text">From <${Source} server=${server} /></p>
      ${
        instructions &&
        html`<details class="fold">
          <summary>What it says about itself</summary>
          <${Text} text=${instructions} label="Instructions of the server" />
        </details>`
      }
    </div>
  `;
}

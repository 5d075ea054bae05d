// The events of one server since the daemon was started, as far back as they are kept.

import { duration, moment, time } from "../format.js";
import { html } from "../html.js";
import { historyOf } from "../merge.js";
import { stateName } from "../parts/pill.js";
import { Empty } from "../parts/text.js";
import { log } from "../world.js";

/** @param {{server: Api.Server}} given */
export function ServerHistory({ server }) {
  const events = historyOf(log.value, server.name);
  if (events.length === 0)
    return html`<${Empty} title="Nothing happened yet"><p>Connections, failures and calls appear here.</p><//>`;
  return html`
    <ol class="history" data-testid="history">
      ${events.map((event) => html`<li data-status=${event.name}><time datetime=${event.data.at} title=${moment(event.data.at)}>${time(event.data.at)}</time><span>${wordsFor(event)}</span></li>`)}
    </ol>
  `;
}

/** @param {Api.LiveEvent} event @returns {string} */
function wordsFor({ name, data }) {
  switch (name) {
    case "mcp_server_state":
      return [stateName(data.state?.state ?? "?"), data.state?.error].filter(Boolean).join(": ");
    case "mcp_server_connected":
      return "the connection stands";
    case "mcp_server_disconnected":
      return "the connection ended";
    case "mcp_server_error":
      return `error: ${plain(data.error ?? data.message)}`;
    case "mcp_server_warning":
      return `warning: ${plain(data.warning ?? data.message)}`;
    case "mcp_tools_updated":
      return "its tools changed";
    case "tool_completed":
      return `${data.tool}: ${data.outcome === "ok" ? "ok" : String(data.outcome).replace("_", " ")} in ${duration(data.duration_ms ?? 0)}`;
    case "tool_denied":
      return `${data.tool}: denied${data.why ? `, ${plain(data.why)}` : ""}`;
    case "tool_approval_request":
      return `${data.tool}: a user was asked`;
    default:
      return name.replaceAll("_", " ");
  }
}

/** @param {unknown} value */
const plain = (value) => (typeof value === "string" ? value : JSON.stringify(value ?? ""));

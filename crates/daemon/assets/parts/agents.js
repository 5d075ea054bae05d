// The choice of the agent whose servers, questions and events (its world) the page shows. Hidden if no agent is configured.

import { AGENTS, agent, enter } from "../agent.js";
import { get } from "../api.js";
import { html } from "../html.js";
import { configTurn } from "../world.js";
import { onText } from "./input.js";
import { useLoaded } from "./loaded.js";

export function Agents() {
  const loaded = useLoaded((signal) => get(AGENTS, signal), [configTurn.value]);
  const agents = /** @type {Api.Agent[]} */ (loaded.data?.agents ?? []);
  if (agents.length === 0 && agent === null) return null;
  const ids = agents.map(({ id }) => id);
  // The agent may no longer be in the file.
  if (agent !== null && !ids.includes(agent)) ids.push(agent);
  return html`
    <label class="agents">
      <span>Agent</span>
      <select
        data-testid="agent"
        value=${agent ?? ""}
        onChange=${onText((/** @type {string} */ id) => enter(id === "" ? null : id))}
      >
        <option value="">all agents</option>
        ${ids.map((id) => html`<option value=${id}>${id}</option>`)}
      </select>
    </label>
  `;
}

// The tools of one server.

import { get } from "../api.js";
import { html } from "../html.js";
import { useLoaded } from "../parts/loaded.js";
import { Trouble } from "../parts/problem.js";
import { Empty, Waiting } from "../parts/text.js";
import { ToolList } from "../parts/tool-list.js";
import { toolsTurn } from "../world.js";

/** More than any server has. */
const ALL = 10_000;

/** @param {{server: Api.Server}} given */
export function ServerTools({ server }) {
  const { name, tools, state } = server;
  const loaded = useLoaded(
    (signal) => get(`/api/v1/tools?server=${encodeURIComponent(name)}&limit=${ALL}`, signal),
    [name, tools, state, toolsTurn.value],
  );
  if (!loaded.data)
    return loaded.error ? html`<${Trouble} error=${loaded.error} again=${loaded.again} />` : html`<${Waiting} />`;
  if (loaded.data.tools.length === 0) {
    const why = state === "connected" ? "It offers none." : "They are known once it is connected.";
    return html`<${Empty} title="No tools"><p>${why}</p><//>`;
  }
  return html`<${ToolList} tools=${loaded.data.tools} />`;
}

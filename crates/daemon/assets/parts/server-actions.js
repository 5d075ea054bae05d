// The actions for a server, the same on its row and on its page.

import { call, post, serverPath } from "../api.js";
import { entryFor, FORMATS } from "../copy.js";
import { html, useState } from "../html.js";
import { go, hashOf } from "../router.js";
import { refresh, replaceServer } from "../world.js";
import { CopyButton } from "./copy.js";
import { Confirm } from "./dialog.js";
import { useAction, useLoaded } from "./loaded.js";
import { Menu } from "./menu.js";
import { Trouble } from "./problem.js";
import { say } from "./say.js";
import { SignIn } from "./sign-in.js";
import { Diff, Waiting } from "./text.js";

/** The states with a connection, or with one that is being made. */
const UP = ["connected", "connecting", "reconnecting", "tools_failed"];

/** The states in which the server could be connected. */
const CAN_CONNECT = ["disconnected", "failed"];

/** @param {{server: Api.Server}} given */
export function ServerActions({ server }) {
  const { name, state, enabled, editable, config } = server;
  const [asking, setAsking] = useState(/** @type {"remove" | "enable" | "disable" | null} */ (null));
  const steer = useAction(async (/** @type {string} */ verb) => {
    replaceServer(await post(serverPath(name, `/${verb}`)));
    refresh("servers", "overview");
  });
  const isUp = UP.includes(state);
  return html`
    <div class="server-actions">
      ${state === "pending_trust" && html`<a class="button" href="#/trust">Review</a>`}
      ${state === "disabled" && editable && html`<button type="button" onClick=${() => setAsking("enable")} data-testid="enable">Enable</button>`}
      ${isUp && html`<button type="button" disabled=${steer.busy} onClick=${() => steer.run("reconnect")} data-testid="reconnect">Reconnect</button>`}
      ${CAN_CONNECT.includes(state) && html`<button type="button" disabled=${steer.busy} onClick=${() => steer.run("connect")} data-testid="connect">Connect</button>`}
      ${state === "needs_auth" && html`<${SignIn} name=${name} />`}
      <${Menu} label=${`More for ${name}`}>
        ${isUp && html`<button type="button" onClick=${() => steer.run("disconnect")} data-testid="disconnect">Disconnect</button>`}
        ${editable && html`<button type="button" onClick=${() => setAsking(enabled ? "disable" : "enable")} data-testid="toggle">${enabled ? "Disable" : "Enable"}</button>`}
        ${editable && html`<a href=${hashOf(["servers", name, "edit"])} data-testid="edit">Edit</a>`}
        ${config && html`<a href=${hashOf(["add", "form"], { from: name })} data-testid="clone">Clone</a>`}
        ${config && FORMATS.map(({ format, label }) => html`<${CopyButton} text=${() => entryFor(format, name, config)} label=${`Copy for ${label}`} said=${`Copied for ${label}`} testid=${`copy-${format}`} />`)}
        ${editable && html`<button type="button" class="danger-text" onClick=${() => setAsking("remove")} data-testid="remove">Remove</button>`}
      <//>
      <${Trouble} error=${steer.error} />
      ${asking === "remove" && html`<${Remove} server=${server} onClose=${() => setAsking(null)} />`}
      ${(asking === "enable" || asking === "disable") && html`<${Toggle} server=${server} verb=${asking} onClose=${() => setAsking(null)} />`}
    </div>
  `;
}

/** @param {{server: Api.Server, onClose: () => void}} given */
function Remove({ server, onClose }) {
  const { name } = server;
  const edited = useLoaded((signal) => call(serverPath(name, "?dry_run=true"), { method: "DELETE", signal }), [name]);
  const doIt = async () => {
    await call(serverPath(name), { method: "DELETE" });
    say(`Removed ${name}`);
    refresh("servers", "overview", "config");
    go(["servers"]);
  };
  return html`
    <${Confirm} title=${`Remove ${name}?`} action="Remove" danger=${true} onClose=${onClose} doIt=${doIt} wide=${true}>
      <p>
        It is disconnected, and its entry is taken out of${" "}
        <span class="path">${edited.data?.path ?? server.source}</span>.
      </p>
      <${Trouble} error=${edited.error} />
      ${edited.data ? html`<${Diff} diff=${edited.data.diff} />` : !edited.error && html`<${Waiting} />`}
    <//>
  `;
}

/** @param {{server: Api.Server, verb: "enable" | "disable", onClose: () => void}} given */
function Toggle({ server, verb, onClose }) {
  const { name, source } = server;
  const doIt = async () => {
    await post(serverPath(name, `/${verb}`));
    say(verb === "enable" ? `Enabled ${name}` : `Disabled ${name}`);
    refresh("servers", "overview", "config");
  };
  const what =
    verb === "enable"
      ? "It is connected, now and at each start."
      : "It is disconnected and stays so until it is enabled.";
  return html`
    <${Confirm}
      title=${`${verb === "enable" ? "Enable" : "Disable"} ${name}?`}
      action=${verb === "enable" ? "Enable" : "Disable"}
      onClose=${onClose}
      doIt=${doIt}
    >
      <p>${what}</p>
      ${source && html`<p class="quiet-text">This is written to <span class="path">${source}</span>.</p>`}
    <//>
  `;
}

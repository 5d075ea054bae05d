// The configuration of one server; the daemon hides its secrets.

import { entryFor, FORMATS } from "../copy.js";
import { html } from "../html.js";
import { json } from "../format.js";
import { CopyButton } from "../parts/copy.js";
import { Text } from "../parts/text.js";
import { hashOf } from "../router.js";

/** @param {{server: Api.Server}} given */
export function ServerConfig({ server }) {
  const { name, config, editable } = server;
  return html`
    <${Text} text=${json(config)} label=${`Configuration of ${name}`} testid="config" />
    <p class="quiet-text">
      Secrets are hidden. Placeholders such as <code>${"${TOKEN}"}</code> are shown as they are written; their values
      never come here.
    </p>
    <p class="actions">
      ${editable && html`<a class="button" href=${hashOf(["servers", name, "edit"])}>Edit</a>`}
      ${!editable && html`<span class="quiet-text">The file with this entry cannot be edited here.</span>`}
      ${FORMATS.map(({ format, label }) => html`<${CopyButton} text=${() => entryFor(format, name, config ?? {})} label=${`Copy for ${label}`} said=${`Copied for ${label}`} />`)}
    </p>
  `;
}

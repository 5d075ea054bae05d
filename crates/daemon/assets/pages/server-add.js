// Adds servers: by a form, by pasted JSON, or by importing those of other programs.

import { html } from "../html.js";
import { Head, Tabs } from "../parts/page.js";
import { Waiting } from "../parts/text.js";
import { hashOf } from "../router.js";
import { servers } from "../world.js";
import { AddForm } from "./add-form.js";
import { AddImport } from "./add-import.js";
import { AddPasted } from "./add-pasted.js";

const WAYS = [
  { id: "form", label: "Form" },
  { id: "json", label: "Paste JSON" },
  { id: "import", label: "Import" },
];

/** @param {{way: string, from?: string}} given `from` is the server that is cloned */
export function ServerAdd({ way, from }) {
  const shown = WAYS.some(({ id }) => id === way) ? way : "form";
  return html`
    <${Head} title=${from ? `Clone ${from}` : "Add a server"} help="adding servers" up=${{ href: "#/servers", label: "Servers" }} />
    <${Tabs}
      label="Ways to add"
      tabs=${WAYS.map(({ id, label }) => ({ id, label, href: hashOf(["add", id]), current: id === shown }))}
    />
    ${shown === "form" && (servers.value ? html`<${AddForm} key=${from ?? ""} from=${servers.value.find(({ name }) => name === from)} />` : html`<${Waiting} />`)}
    ${shown === "json" && html`<${AddPasted} />`} ${shown === "import" && html`<${AddImport} />`}
  `;
}

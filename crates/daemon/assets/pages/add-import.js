// Imports the servers of other programs on this machine.

import { get, post } from "../api.js";
import { counted, json } from "../format.js";
import { html, useState } from "../html.js";
import { useAction, useLoaded } from "../parts/loaded.js";
import { Problems, Trouble } from "../parts/problem.js";
import { say } from "../parts/say.js";
import { ScopeField } from "../parts/scope-field.js";
import { Empty, spoken, Text, Waiting } from "../parts/text.js";
import { go } from "../router.js";
import { refresh } from "../world.js";

/** @param {Api.Offer} offer */
const keyOf = ({ client, name, hash }) => JSON.stringify([client, name, hash]);

export function AddImport() {
  const loaded = useLoaded((signal) => get("/api/v1/import", signal), []);
  const [chosen, setChosen] = useState(/** @type {Set<string>} */ (new Set()));
  const [scope, setScope] = useState("user");
  const offers = /** @type {Api.Offer[]} */ (loaded.data?.offers ?? []);
  const take = useAction(async () => {
    const wanted = offers
      .filter((offer) => chosen.has(keyOf(offer)))
      .map(({ client, name, hash }) => ({ client, name, hash }));
    const { edited } = await post("/api/v1/import", { offers: wanted, scope });
    say(`Imported ${counted(edited.length, "server")}`);
    refresh("servers", "overview", "config");
    go(["servers"]);
  });
  if (!loaded.data)
    return loaded.error ? html`<${Trouble} error=${loaded.error} again=${loaded.again} />` : html`<${Waiting} />`;
  const problems = html`<${Problems} problems=${loaded.data.problems ?? []} />`;
  if (offers.length === 0) {
    return html`${problems}<${Empty} title="Nothing to import">
        <p>
          No other program on this machine has servers that are not here.${" "}
          <a href="#/add/json">Paste an entry</a> instead.
        </p><//>
      `;
  }
  const toggle = (/** @type {Api.Offer} */ offer) => {
    const next = new Set(chosen);
    if (!next.delete(keyOf(offer))) next.add(keyOf(offer));
    setChosen(next);
  };
  return html`
    <div class="sheet">
      ${problems}
      <p>
        What other programs on this machine have. Nothing of it runs before you import it; their files stay as they are.
      </p>
      <ul class="offers" data-testid="offers">
        ${offers.map((offer) => html`<${Offer} key=${keyOf(offer)} offer=${offer} checked=${chosen.has(keyOf(offer))} toggle=${() => toggle(offer)} />`)}
      </ul>
      <${ScopeField} scope=${scope} onChange=${setScope} />
      <${Trouble} error=${take.error} />
      <p class="actions">
        <button
          type="button"
          class="primary"
          disabled=${take.busy || chosen.size === 0}
          onClick=${() => take.run()}
          data-testid="import"
        >
          Import ${chosen.size > 0 ? counted(chosen.size, "server") : ""}
        </button>
      </p>
    </div>
  `;
}

/** @param {{offer: Api.Offer, checked: boolean, toggle: () => void}} given */
function Offer({ offer, checked, toggle }) {
  return html`
    <li data-testid="offer" data-name=${offer.name}>
      <label class="check">
        <input type="checkbox" disabled=${offer.known} checked=${checked} onChange=${toggle} />
        <strong>${offer.name}</strong>
        <span class="quiet-text">${offer.client}</span>
        ${offer.known && html`<span class="mark warn">a server of this name is there</span>`}</label>
      <p class="path">${offer.path}${offer.line ? `:${offer.line}` : ""}</p>
      ${(offer.notes ?? []).map((note) => html`<p class="quiet-text">${spoken(note)}</p>`)}
      <details class="fold">
        <summary>What it runs</summary>
        <${Text} text=${json(offer.config)} label=${`Entry of ${offer.name}`} />
      </details>
    </li>
  `;
}

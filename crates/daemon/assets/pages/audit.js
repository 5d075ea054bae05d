// The audit log: calls, connections, agreements and answers. Its chain of hashes shows tampering.

import { get } from "../api.js";
import { aboutOf, factsOf, markOf, whoOf, wordOf } from "../audit-row.js";
import { daemonNow } from "../clock.js";
import { ago, json, moment } from "../format.js";
import { html } from "../html.js";
import { onText } from "../parts/input.js";
import { useLoaded } from "../parts/loaded.js";
import { Head } from "../parts/page.js";
import { Trouble } from "../parts/problem.js";
import { Empty, Text, Waiting } from "../parts/text.js";
import { hashOf, refine } from "../router.js";
import { servers } from "../world.js";

/** Rows on one page. */
const SHOWN = 100;

/** The periods that can be chosen, in ms. */
const SPANS = { "1h": 3_600_000, "24h": 86_400_000, "7d": 604_800_000 };

/** @param {{query: Record<string, string>}} given */
export function Audit({ query }) {
  const { server = "", since = "", denied = "", before = "" } = query;
  const loaded = useLoaded((signal) => get(`/api/v1/audit?${wanted(query)}`, signal), [server, since, denied, before]);
  const found = /** @type {Api.Audit | null} */ (loaded.data);
  const isNarrow = server !== "" || since !== "" || denied !== "" || before !== "";
  return html`
    <${Head}
      title="Audit"
      help="audit"
      about=${html`Each row seals all rows before it. <code>toolrack audit verify</code> tells whether one was changed.`}
    >
      <button type="button" disabled=${loaded.loading} onClick=${loaded.again} data-testid="audit-again">Look again</button>
    <//>
    <${Filters} query=${query} />
    <${Trouble} error=${loaded.error} again=${loaded.again} />
    ${!found && !loaded.error && html`<${Waiting} />`}
    ${found && found.rows.length === 0 && html`<${None} isNarrow=${isNarrow} />`}
    ${
      found &&
      found.rows.length > 0 &&
      html`<ol class="rows audit panel" data-testid="audit">
        ${found.rows.map((row) => html`<${Row} key=${row.seq} row=${row} />`)}
      </ol>`
    }
    ${found && html`<${Pages} query=${query} next=${found.next} />`}
  `;
}

/** @param {Record<string, string>} query */
function wanted({ server, since, denied, before }) {
  const span = SPANS[/** @type {keyof typeof SPANS} */ (since)];
  return new URLSearchParams({
    limit: String(SHOWN),
    ...(server && { server }),
    ...(span && { since: new Date(daemonNow() - span).toISOString() }),
    ...(denied && { denied: "true" }),
    ...(before && { before }),
  });
}

/** @param {{query: Record<string, string>}} given */
function Filters({ query }) {
  const { server = "", since = "", denied = "" } = query;
  const names = new Set((servers.value ?? []).map(({ name }) => name));
  // The address may name a server that is no longer configured.
  if (server) names.add(server);
  const choose = (/** @type {Record<string, string>} */ chosen) => refine({ ...query, before: "", ...chosen });
  return html`
    <div class="toolbar" role="search">
      <label class="inline">
        <span class="hidden">Server</span>
        <select onChange=${onText((text) => choose({ server: text }))} data-testid="audit-server">
          <option value="" selected=${server === ""}>All servers</option>
          ${[...names].map((name) => html`<option key=${name} value=${name} selected=${name === server}>${name}</option>`)}
        </select>
      </label>
      <label class="inline">
        <span class="hidden">Since</span>
        <select onChange=${onText((text) => choose({ since: text }))} data-testid="audit-since">
          <option value="" selected=${since === ""}>At any time</option>
          <option value="1h" selected=${since === "1h"}>In the last hour</option>
          <option value="24h" selected=${since === "24h"}>In the last day</option>
          <option value="7d" selected=${since === "7d"}>In the last week</option>
        </select>
      </label>
      <label class="check">
        <input
          type="checkbox"
          checked=${denied !== ""}
          onChange=${() => choose({ denied: denied ? "" : "1" })}
          data-testid="audit-denied"
        />
        Only what was not allowed
      </label>
    </div>
  `;
}

/** @param {{isNarrow: boolean}} given */
function None({ isNarrow }) {
  if (isNarrow) return html`<${Empty} title="Nothing like this"><p>Ask for more, or <a href="#/audit">for everything</a>.</p><//>`;
  return html`<${Empty} title="Nothing happened yet">
    <p>Each call, connection and agreement is written down here. <a href="#/tools">Call a tool</a> to see one.</p><//>
  `;
}

/** @param {{row: Api.AuditRow}} given */
function Row({ row }) {
  return html`
    <li data-testid="audit-row" data-seq=${row.seq} data-status=${row.outcome ?? row.decision ?? row.kind}>
      <details>
        <summary>
          <span class="quiet-text">${row.seq}</span>
          <strong>${aboutOf(row)}</strong>
          <span class=${markOf(row)}>${wordOf(row)}</span>
          <span class="quiet-text">${whoOf(row)}</span>
          ${row.at && html`<time class="quiet-text" datetime=${row.at} title=${moment(row.at)}>${ago(row.at)}</time>`}
        </summary>
        <dl class="facts">
          ${factsOf(row).map(([name, value]) => html`<div><dt>${name}</dt><dd class="path">${value}</dd></div>`)}
        </dl>
        ${row.arguments && html`<${Text} text=${json(row.arguments)} label="Arguments" testid="audit-arguments" />`}
      </details>
    </li>
  `;
}

/** @param {{query: Record<string, string>, next: number | null}} given */
function Pages({ query, next }) {
  const { before } = query;
  if (!before && next === null) return null;
  return html`
    <nav class="actions" aria-label="Pages">
      ${before && html`<a class="button" href=${hashOf(["audit"], { ...query, before: "" })}>The newest</a>`}
      ${next !== null && html`<a class="button" href=${hashOf(["audit"], { ...query, before: String(next) })} data-testid="audit-older">Older</a>`}
    </nav>
  `;
}

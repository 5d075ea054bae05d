// Quotas: what a member, all members together and the clients of profiles may use, how much is used, and when it is free again.

import { get } from "../api.js";
import { bytes, count, counted, moment } from "../format.js";
import { html } from "../html.js";
import { useLoaded } from "../parts/loaded.js";
import { Head } from "../parts/page.js";
import { Trouble } from "../parts/problem.js";
import { Empty, Waiting } from "../parts/text.js";

/** Each quantity: its name, and an amount of it. @type {Record<string, {title: string, amount: (value: number) => string}>} */
const QUANTITIES = {
  calls: { title: "Tool calls", amount: (value) => counted(value, "call") },
  result_bytes: { title: "Tool results", amount: bytes },
  tokens: { title: "Model tokens", amount: (value) => counted(value, "token") },
  dollars: { title: "Model cost", amount: (value) => `$${value.toFixed(2)}` },
};

/** @type {Record<string, string>} */
const WINDOWS = { at_once: "at once", minute: "per minute", hour: "per hour", day: "per day", month: "per month" };

/** @param {Api.Quota} quota */
const titleOf = ({ quantity, window }) => `${QUANTITIES[quantity]?.title ?? quantity} ${WINDOWS[window] ?? window}`;

/** The headings, each with the quotas below it. @param {Api.Quota[]} quotas @returns {[string, Api.Quota[]][]} */
function groups(quotas) {
  /** @type {Map<string, Api.Quota[]>} */
  const found = new Map();
  for (const quota of quotas) {
    const title = headingOf(quota);
    found.set(title, [...(found.get(title) ?? []), quota]);
  }
  return [...found];
}

/** @param {Api.Quota} quota */
function headingOf({ of, yours, name, member }) {
  if (yours) return "You";
  if (of === "tenant") return "All members together";
  return of === "profile" ? `All clients of the profile ${name} together` : (name ?? `Member ${member?.slice(0, 12)}`);
}

export function Quotas() {
  const loaded = useLoaded((signal) => get("/api/v1/quotas", signal), []);
  const quotas = /** @type {Api.Quota[] | null} */ (loaded.data?.quotas ?? null);
  return html`
    <${Head} title="Quotas" help="quotas" about="What the quotas allow, how much of them is used, and when they are free again.">
      <button type="button" onClick=${loaded.again} disabled=${loaded.loading} data-testid="look-again">Look again</button>
    <//>
    <${Trouble} error=${loaded.error} again=${loaded.again} />
    ${!quotas && !loaded.error && html`<${Waiting} />`}
    ${
      quotas?.length === 0 &&
      html`<${Empty} title="No quotas" testid="no-quotas"><p>No quota limits what you use.</p><//>`
    }
    ${groups(quotas ?? []).map(([title, all]) => html`<${Group} key=${title} title=${title} quotas=${all} />`)}
  `;
}

/** @param {{title: string, quotas: Api.Quota[]}} given */
function Group({ title, quotas }) {
  return html`
    <section class="panel" aria-label=${title} data-testid="quota-group" data-name=${title}>
      <h2>${title}</h2>
      <ul class="rows">
        ${quotas.map((quota) => html`<${Row} key=${quota.setting} quota=${quota} />`)}
      </ul>
    </section>
  `;
}

/** @param {{quota: Api.Quota}} given */
function Row({ quota }) {
  const { quantity, used, limit, setting, free_at: free } = quota;
  const amount = QUANTITIES[quantity]?.amount ?? count;
  return html`
    <li data-testid="quota" data-name=${setting} data-status=${free ? "used-up" : "free"}>
      <p><strong>${titleOf(quota)}</strong> <span data-testid="quota-used">${amount(used)} of ${amount(limit)} used</span></p>
      <progress value=${Math.min(used, limit)} max=${limit} aria-label=${titleOf(quota)}></progress>
      <p class="quiet-text" data-testid="quota-free">${freeAgain(quota)}</p>
    </li>
  `;
}

/** When it is free again, in words. @param {Api.Quota} quota */
function freeAgain({ window, used, free_at: free, renews_at: renews }) {
  if (free && window === "at_once") return "Used up. More is free when a running call has ended.";
  if (free) return `Used up. More is free at ${moment(free)}.`;
  if (renews) return `The whole quota is free again at ${moment(renews)}.`;
  return used > 0 ? "The whole quota is free again when the running calls have ended." : "Nothing is used.";
}

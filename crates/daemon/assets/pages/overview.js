// The overview: the state of all servers, what waits for the user, and the next steps.

import { ago, count, counted, duration, tokens } from "../format.js";
import { html } from "../html.js";
import { Head } from "../parts/page.js";
import { stateName } from "../parts/pill.js";
import { spoken, Waiting } from "../parts/text.js";
import { hashOf } from "../router.js";
import { overview, problems, questions, servers, trust } from "../world.js";

/** The states, in the order in which they are shown. */
const ORDER = [
  "connected",
  "idle",
  "connecting",
  "reconnecting",
  "needs_auth",
  "pending_trust",
  "tools_failed",
  "failed",
  "broken",
  "disconnected",
  "disabled",
];

export function Overview() {
  const now = overview.value;
  if (!now) return html`<${Head} title="Overview" /><${Waiting} />`;
  const waiting = openQuestions() + pendingServers() + quarantinedTools();
  return html`
    <${Head} title="Overview" help="overview" about=${`Toolrack ${now.version}, up for ${duration(now.uptime_s * 1000)}`} />
    <${NextSteps} />
    <section class="figures" aria-label="Figures" data-testid="figures">
      <${Figure}
        label="Servers connected"
        value=${count(now.servers.connected ?? 0)}
        of=${sum(now.servers)}
        href="#/servers"
        id="servers"
      />
      <${Figure}
        label="Tools"
        value=${count(now.tools)}
        note=${`${tokens(now.tokens)} tokens`}
        href="#/tools"
        id="tools"
      />
      <${Figure}
        label="Calls per minute"
        value=${rate(now.calls.per_minute)}
        note=${`${count(now.calls.total)} in all`}
        id="calls"
      />
      <${Figure}
        label="Failed calls"
        value=${count(now.calls.errors)}
        note=${now.calls.denied > 0 ? `${count(now.calls.denied)} denied` : ""}
        mood=${now.calls.errors > 0 ? "bad" : ""}
        id="errors"
      />
      <${Figure}
        label="Waiting for you"
        value=${count(waiting)}
        mood=${waiting > 0 ? "warn" : ""}
        href=${questions.value.length > 0 || waiting === 0 ? "#/approvals" : "#/trust"}
        id="approvals"
      />
    </section>
    <div class="columns">
      <${States} states=${now.servers} />
      <${Recent} recent=${now.recent} />
    </div>
  `;
}

// The counts of what waits for the user. The figure "Waiting for you" is their sum, and each has a step of its own.
const openQuestions = () => questions.value.length;
const pendingServers = () => trust.value?.pending.length ?? 0;
const quarantinedTools = () => trust.value?.quarantined.length ?? 0;

/** @param {Record<string, number>} states */
const sum = (states) => Object.values(states).reduce((all, one) => all + one, 0);

/** Calls per minute in words: small numbers with one decimal. @param {number} value */
const rate = (value) => (value > 0 && value < 10 ? value.toFixed(1).replace(/\.0$/, "") : count(Math.round(value)));

/** @param {{label: string, value: string, of?: number, note?: string, mood?: string, href?: string, id: string}} given */
function Figure({ label, value, of, note, mood = "", href, id }) {
  const inner = html`
    <span class="figure-label">${label}</span>
    <span class="figure-value">${value}${of !== undefined && html`<span class="of"> of ${count(of)}</span>`}</span>
    <span class="figure-note">${note ?? ""}</span>
  `;
  const kind = `figure ${mood}`;
  return href
    ? html`<a class=${kind} href=${href} data-testid=${`figure-${id}`}>${inner}</a>`
    : html`<div class=${kind} data-testid=${`figure-${id}`}>${inner}</div>`;
}

/**
 * Something that the user should look at.
 * @typedef {{id: string, mood: "warn" | "bad", title: string, note?: string | null, href: string, action: string}} Step
 */

/** Returns the steps that the user should take, the most urgent first. @returns {Step[]} */
function steps() {
  const [open, pending, quarantined] = [openQuestions(), pendingServers(), quarantinedTools()];
  const withFindings = overview.value?.tools_with_findings ?? 0;
  const configProblems = problems.value.length;
  /** @type {Step[]} */
  const found = [];
  if (open > 0)
    found.push({
      id: "approvals",
      mood: "warn",
      title: `${counted(open, "question")} ${open === 1 ? "waits" : "wait"} for your answer`,
      href: "#/approvals",
      action: "Answer",
    });
  if (pending > 0)
    found.push({
      id: "trust",
      mood: "warn",
      title: `A project asks to run ${counted(pending, "server")}`,
      href: "#/trust",
      action: "Review",
    });
  if (quarantined > 0)
    found.push({
      id: "quarantine",
      mood: "warn",
      title: `${counted(quarantined, "tool")} ${quarantined === 1 ? "has" : "have"} changed and ${quarantined === 1 ? "waits" : "wait"} for your approval`,
      href: "#/trust",
      action: "Review",
    });
  if (withFindings > 0)
    found.push({
      id: "findings",
      mood: "warn",
      title: `${counted(withFindings, "tool")} ${withFindings === 1 ? "has" : "have"} something in the definition that you should look at`,
      note: servers.value
        ?.filter((server) => server.tools_with_findings > 0)
        .map((server) => server.name)
        .join(", "),
      href: hashOf(["tools"], { findings: "yes" }),
      action: "Look",
    });
  for (const server of servers.value ?? []) found.push(...stepsOf(server));
  if (configProblems > 0)
    found.push({
      id: "config",
      mood: "bad",
      title: `${counted(configProblems, "problem")} in the configuration`,
      note: problems.value[0].message,
      href: "#/config",
      action: "Look",
    });
  return found;
}

/** Returns the step for a server that does not work or needs a sign-in, if it is one. @param {Api.Server} server @returns {Step[]} */
function stepsOf({ name, state, error, how }) {
  const href = hashOf(["servers", name, "health"]);
  if (state === "needs_auth")
    return [{ id: "sign-in", mood: "warn", title: `${name} needs a sign-in`, note: how, href, action: "See how" }];
  return state === "failed" || state === "tools_failed"
    ? [{ id: "failed", mood: "bad", title: `${name} does not work`, note: error, href, action: "Find out why" }]
    : [];
}

function NextSteps() {
  const found = steps();
  const own = (servers.value ?? []).filter(({ scope }) => scope !== "built in");
  return html`
    ${
      found.length > 0 &&
      html`
        <section class="panel" aria-label="What needs you" data-testid="next-steps">
          <ul class="rows">
            ${found.map(
              ({ id, mood, title, note, href, action }) => html`
                <li data-testid=${`step-${id}`}>
                  <span class=${`dot ${mood}-text`} aria-hidden="true"></span>
                  <div>
                    <p><strong>${title}</strong></p>
                    ${note && html`<p class="quiet-text clip">${spoken(note)}</p>`}
                  </div>
                  <a class="button" href=${href} aria-label=${`${action}: ${title}`}>${action}</a>
                </li>
              `,
            )}
          </ul>
        </section>
      `
    }
    ${servers.value && own.length === 0 && html`<${First} />`}
  `;
}

/** What a user without servers sees. */
function First() {
  return html`
    <section class="notice first" data-testid="step-first">
      <div>
        <h2>Add your first server</h2>
        <p>
          Import the servers of your other programs, paste an entry from a web page, or fill in a form. You can use the
          tools of a new server at once.
        </p>
      </div>
      <p class="actions">
        <a class="button primary" href="#/add/import">Import</a>
        <a class="button" href="#/add/json">Paste JSON</a>
        <a class="button" href="#/add/form">Fill in a form</a>
      </p>
    </section>
  `;
}

/** How many servers are in each state. @param {{states: Record<string, number>}} given */
function States({ states }) {
  const all = [...ORDER, ...Object.keys(states).filter((state) => !ORDER.includes(state))];
  const present = all.filter((state) => (states[state] ?? 0) > 0);
  return html`
    <section class="panel" data-testid="states">
      <h2>Servers by state</h2>
      ${present.length === 0 && html`<p class="quiet-text">None yet.</p>`}
      <ul class="states">
        ${present.map(
          (state) =>
            html`<li>
              <a href=${hashOf(["servers"], { state })} data-status=${state}>
                <span>${stateName(state)}</span><span class="number">${states[state]}</span></a>
            </li>`,
        )}
      </ul>
    </section>
  `;
}

/** @param {{recent: Api.Completed[]}} given */
function Recent({ recent }) {
  return html`
    <section class="panel" data-testid="recent">
      <h2>Last calls</h2>
      ${recent.length === 0 && html`<p class="quiet-text">None since the start. <a href="#/tools">Try a tool</a></p>`}
      <ul class="recent">
        ${recent.map(
          (call) => html`
            <li data-status=${call.outcome}>
              <a href=${hashOf(["tools", call.server, call.tool])}>${call.server}/${call.tool}</a>
              <${OutcomeMark} outcome=${call.outcome} />
              <span class="number">${duration(call.duration_ms)}</span>
              <time datetime=${call.at}>${ago(call.at)}</time>
            </li>
          `,
        )}
      </ul>
    </section>
  `;
}

/** The label and the mood of each outcome of a call. @type {Record<string, [string, string]>} */
const OUTCOMES = {
  ok: ["ok", "good"],
  tool_error: ["tool error", "bad"],
  failed: ["failed", "bad"],
  cancelled: ["cancelled", "quiet"],
};

/** @param {{outcome: string}} given */
export function OutcomeMark({ outcome }) {
  const [label, mood] = OUTCOMES[outcome] ?? [outcome, "quiet"];
  return html`<span class=${`mark ${mood}`}>${label}</span>`;
}

// The entries that projects want to run, the user's agreements, and the tools in quarantine, whose definitions have changed.

import { ago, counted, moment } from "../format.js";
import { html, useEffect, useState } from "../html.js";
import { decide, Decision, useDecision } from "../parts/decision.js";
import { Confirm } from "../parts/dialog.js";
import { Head } from "../parts/page.js";
import { Empty, spoken, Waiting } from "../parts/text.js";
import { Proposal } from "../parts/proposal.js";
import { QuarantinedTools } from "../parts/quarantined.js";
import { refresh, trust } from "../world.js";

export function Trust() {
  useEffect(() => refresh("trust"), []);
  const known = trust.value;
  return html`
    <${Head}
      title="Trust"
      help="trust"
      about="Entries from the file of a project, and tools whose definition has changed, do not run until you have seen them and agreed."
    />
    ${!known && html`<${Waiting} />`}
    ${known && known.quarantined.length > 0 && html`<${QuarantinedTools} tools=${known.quarantined} />`}
    ${
      known &&
      known.pending.length === 0 &&
      html`<${Empty} title="Nothing waits for your agreement" testid="no-pending">
        <p>When a project's <code>.mcp.json</code> brings servers, what they would run appears here.</p><//>
      `
    }
    ${known?.pending.map((pending) => html`<${Pending} key=${`${pending.project} ${pending.name} ${pending.hash}`} pending=${pending} />`)}
    ${known && known.refused.length > 0 && html`<${Refused} refused=${known.refused} />`}
    ${known && known.trusted.length > 0 && html`<${Agreed} trusted=${known.trusted} />`}
  `;
}

/** @param {{refused: Api.Pending[]}} given */
function Refused({ refused }) {
  return html`
    <details class="fold" data-testid="refused">
      <summary>Refused: ${counted(refused.length, "server")}</summary>
      <p class="quiet-text">None of these run. If an entry changes, Toolrack asks you again.</p>
      ${refused.map((one) => html`<${Pending} key=${`${one.project} ${one.name} ${one.hash}`} pending=${one} isRefused=${true} />`)}
    </details>
  `;
}

/** @param {{pending: Api.Pending, isRefused?: boolean}} given */
function Pending({ pending, isRefused = false }) {
  const { name, project, hash, source, line, config, before, points } = pending;
  const about = { project, name, hash };
  const approve = useDecision("/api/v1/trust/approve", about, `Agreed to ${name}`);
  const refuse = useDecision("/api/v1/trust/refuse", about, `Refused ${name}: it does not wait again until it changes`);
  return html`
    <article class="panel pending" data-testid="pending" data-name=${name} data-status=${before ? "changed" : "new"}>
      <header class="question-head">
        <h2>${name}</h2>
        <span class=${before ? "mark warn" : "mark"}>${before ? "changed since you agreed" : "new"}</span>
      </header>
      <p class="path">${source}${line ? `:${line}` : ""}</p>
      <${Proposal} config=${config} before=${before} folder=${project} />
      ${
        points.length > 0 &&
        html`<div class="notice warn" data-testid="points">
          <p><strong>Check this before you agree</strong></p>
          <ul>
            ${points.map((point) => html`<li>${spoken(point)}</li>`)}
          </ul>
        </div>`
      }
      <p class="quiet-text">Fingerprint <code class="path">${hash}</code></p>
      <${Decision} yes=${approve} no=${isRefused ? null : refuse} label="Agree to exactly this" testid="approve" />
    </article>
  `;
}

/** @param {{trusted: Api.Trusted[]}} given */
function Agreed({ trusted }) {
  const [asking, setAsking] = useState(/** @type {Api.Trusted | null} */ (null));
  const revoke = async () => {
    if (!asking) return;
    const { project, name } = asking;
    await decide("/api/v1/trust/revoke", { project, name }, `Withdrew the agreement to ${name}`);
  };
  return html`
    <section class="panel" data-testid="agreed">
      <h2>What you agreed to</h2>
      <ul class="rows">
        ${trusted.map(
          (one) => html`
            <li data-testid="trusted" data-name=${one.name}>
              <div><strong>${one.name}</strong> <span class="path">${one.project}</span></div>
              ${one.approved_at && html`<time class="quiet-text" datetime=${one.approved_at} title=${moment(one.approved_at)}>${ago(one.approved_at)}</time>`}
              <button
                type="button"
                onClick=${() => setAsking(one)}
                aria-label=${`Revoke ${one.name}`}
                data-testid="revoke"
              >
                Revoke
              </button>
            </li>
          `,
        )}
      </ul>
      ${
        asking &&
        html`
          <${Confirm}
            title=${`Withdraw the agreement to ${asking.name}?`}
            action="Revoke"
            danger=${true}
            onClose=${() => setAsking(null)}
            doIt=${revoke}
          >
            <p>It is disconnected, and waits for your agreement again.</p>
            <p class="path">${asking.project}</p>
          <//>
        `
      }
    </section>
  `;
}

// Tools in quarantine: their definition differs from their pin, the definition that was trusted. Shows both, and takes the decision.

import { fieldsOf } from "../difference.js";
import { ago, moment } from "../format.js";
import { html } from "../html.js";
import { Decision, useDecision } from "./decision.js";
import { Findings } from "./findings.js";
import { HelpLink } from "./page.js";

/** @param {{tools: Api.QuarantinedTool[]}} given */
export function QuarantinedTools({ tools }) {
  return html`
    <section class="quarantined-tools" data-testid="quarantine">
      <h2>Tools in quarantine</h2>
      <p class="quiet-text">
        No model is offered them and no call of them is made before you have looked. <${HelpLink} about="quarantine" />
      </p>
      ${tools.map((tool) => html`<${QuarantinedTool} key=${`${tool.server} ${tool.tool} ${tool.hash}`} quarantined=${tool} />`)}
    </section>
  `;
}

/** @param {{quarantined: Api.QuarantinedTool}} given */
function QuarantinedTool({ quarantined }) {
  const { server, tool, why, since, hash, definition, pinned, findings } = quarantined;
  const said = `${server}/${tool} is used as it is now`;
  const approve = useDecision("/api/v1/trust/tools/approve", { server, tool, hash }, said);
  return html`
    <article class="panel pending" data-testid="quarantined-tool" data-name=${`${server}/${tool}`} data-status=${quarantined.cause}>
      <header class="question-head">
        <h3>${server}/${tool}</h3>
        <span class="mark warn">${quarantined.cause === "renamed" ? "another name" : "changed"}</span>
      </header>
      <p>${why}${since && html`, <time datetime=${since} title=${moment(since)}>${ago(since)}</time>`}</p>
      <${Findings} findings=${findings} />
      <${Definition} now=${definition} before=${pinned} />
      <p class="quiet-text">Definition <code class="path">${hash}</code></p>
      <${Decision} yes=${approve} label="Use it exactly like this" testid="approve-tool" />
    </article>
  `;
}

/** The fields of a definition that changed, and those that did not. @param {{now: Api.Entry, before: Api.Entry | null}} given */
function Definition({ now, before }) {
  const fields = fieldsOf(now, before);
  const changed = fields.filter(({ status }) => status === "changed");
  const same = fields.filter(({ status }) => status === "same");
  return html`
    ${changed.length > 0 && html`<${Fields} fields=${changed} />`}
    ${
      same.length > 0 &&
      html`<details class="fold" open=${changed.length === 0}>
        <summary>${changed.length > 0 ? "What stayed the same" : "The whole definition"}</summary>
        <${Fields} fields=${same} />
      </details>`
    }
  `;
}

const SIGNS = { same: " ", added: "+", removed: "-" };

/** @param {{fields: import("../difference.js").Field[]}} given */
function Fields({ fields }) {
  return html`
    <dl class="proposal">
      ${fields.map(
        ({ name, status, lines }) => html`
          <div data-testid="field" data-name=${name} data-status=${status}>
            <dt>${name}</dt>
            <dd class="diff">
              ${lines.map(
                ({ kind, text }) =>
                  html`<code class=${kind}>${status === "changed" && html`<span class="sign">${SIGNS[kind]}</span>`}${text}</code>`,
              )}
            </dd>
          </div>
        `,
      )}
    </dl>
  `;
}

// Findings: parts of a definition that the user should look at.

import { counted } from "../format.js";
import { html } from "../html.js";
import { Mark } from "./pill.js";

/** The findings about a definition. @param {{findings: Api.Finding[]}} given */
export function Findings({ findings }) {
  if (findings.length === 0) return null;
  return html`
    <ul class="notice warn" data-testid="findings">
      ${findings.map(({ place, what }) => html`<li><code>${place}</code>: ${what}</li>`)}
    </ul>
  `;
}

/** The mark of a tool in a list. @param {{count: number}} given */
export function FindingMark({ count }) {
  if (count === 0) return null;
  return html`<span data-testid="finding-mark"
    ><${Mark} mood="warn" title="its definition has something that you should look at before a model reads it">
      ${counted(count, "finding")}<//></span
  >`;
}

/** The mark of a server. @param {{server: Api.Server}} given */
export function ServerFindings({ server: { tools_with_findings: count } }) {
  if (count === 0) return null;
  return html`<span data-testid="finding-mark"
    ><${Mark} mood="warn" title="the list of its tools shows which">look at ${counted(count, "tool")}<//></span
  >`;
}

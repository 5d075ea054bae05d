// Tools, one below the other.

import { tokens } from "../format.js";
import { html } from "../html.js";
import { hashOf } from "../router.js";
import { Description } from "./description.js";
import { FindingMark } from "./findings.js";
import { ToolMarks } from "./pill.js";

/** @param {{tools: Api.Tool[], withServer?: boolean}} given */
export function ToolList({ tools, withServer = false }) {
  return html`
    <ul class="tools" data-testid="tools">
      ${tools.map(
        (tool) => html`
          <li key=${`${tool.server}/${tool.tool}`} data-testid="tool" data-name=${`${tool.server}/${tool.tool}`}>
            <p class="tool-name">
              <a href=${hashOf(["tools", tool.server, tool.tool])}>
                ${withServer && html`<span class="server-part">${tool.server}/</span>`}${tool.tool}</a>
              ${tool.title && tool.title !== tool.tool && html`<span class="quiet-text">${tool.title}</span>`}
              <${ToolMarks} annotations=${tool.annotations} /><${FindingMark} count=${tool.finding_count} />
              <span class="tokens" title="tokens that its definition costs">${tokens(tool.tokens)} tok</span>
            </p>
            ${tool.description && html`<${Description} text=${tool.description} />`}
          </li>
        `,
      )}
    </ul>
  `;
}

// The result of a tool. All of it is text from a server, and none of it becomes markup.

import { Description } from "./description.js";
import { bytes, duration, json } from "../format.js";
import { parseExact } from "../exact-json.js";
import { html } from "../html.js";
import { dataAddress, webAddress } from "../links.js";
import { CopyButton } from "./copy.js";
import { Text } from "./text.js";

/** @param {{outcome: Api.Outcome}} given */
export function Result({ outcome }) {
  const { is_error: isError, content, structured, warnings, truncated, artifacts, duration_ms: took } = outcome;
  const shownAsText =
    structured !== null && structured !== undefined && content.length === 1 && isSameJson(content[0], structured);
  return html`
    <section class="result" aria-label="Result" data-testid="result" data-status=${isError ? "error" : "ok"}>
      <header class="toolbar">
        <h2 class=${isError ? "bad-text" : "good-text"}>${isError ? "The tool reports an error" : "Result"}</h2>
        <span class="quiet-text">${duration(took)}</span>
        ${outcome.text && html`<${CopyButton} text=${outcome.text} label="Copy text" class="small" />`}
      </header>
      ${warnings.map((warning) => html`<p class="notice warn">${warning}</p>`)}
      ${truncated && html`<p class="notice warn">The result was too long and is cut off here; all of it is kept as a file.</p>`}
      ${!shownAsText && content.map((block) => html`<${Block} block=${block} />`)}
      ${content.length === 0 && (structured === null || structured === undefined) && html`<p class="quiet-text">The tool returned nothing.</p>`}
      ${
        structured !== null &&
        structured !== undefined &&
        html`<h3>Structured</h3>
          <${Text} text=${json(structured)} label="Structured result" testid="structured" />`
      }
      ${
        artifacts.length > 0 &&
        html`<h3>Files</h3>
          <ul class="files">
            ${artifacts.map((one) => html`<li><code>${one.handle}</code> <span class="quiet-text">${one.media_type}, ${bytes(one.bytes)}</span></li>`)}
          </ul>`
      }
    </section>
  `;
}

/** Whether a block only repeats the structured content, as MCP wants servers to do. @param {Api.Block} block @param {unknown} structured */
function isSameJson(block, structured) {
  if (block.type !== "text" || typeof block.text !== "string") return false;
  try {
    return JSON.stringify(parseExact(block.text)) === JSON.stringify(structured);
  } catch {
    return false;
  }
}

/** One block of content. @param {{block: Api.Block}} given */
export function Block({ block }) {
  switch (block.type) {
    case "text":
      return html`<${Text} text=${block.text ?? ""} label="Text" testid="block-text" />`;
    case "image": {
      const address = dataAddress(block.mimeType, block.data, "picture");
      return address
        ? html`<img
            class="result-image"
            src=${address}
            alt="Picture that the tool gave back"
            data-testid="block-image"
          />`
        : html`<${Unshown} block=${block} />`;
    }
    case "audio": {
      const address = dataAddress(block.mimeType, block.data, "sound");
      return address
        ? html`<audio controls src=${address} data-testid="block-audio"></audio>`
        : html`<${Unshown} block=${block} />`;
    }
    case "resource":
      return html`<${Embedded} resource=${block.resource ?? {}} />`;
    case "resource_link":
      return html`<div class="panel" data-testid="block-link">
        <p><strong>${block.title || block.name || "Resource"}</strong></p>
        <${Address} address=${block.uri} />${block.description && html`<${Description} text=${block.description} />`}
      </div>`;
    default:
      return html`<${Text} text=${json(block)} label="Content of another kind" testid="block-other" />`;
  }
}

/** @param {{resource: Partial<Api.ResourceContents>}} given */
function Embedded({ resource }) {
  const picture = dataAddress(resource.mimeType, resource.blob, "picture");
  return html`
    <div class="panel" data-testid="block-resource">
      <${Address} address=${resource.uri} />
      ${typeof resource.text === "string" && html`<${Text} text=${resource.text} label=${`Content of ${resource.uri ?? "a resource"}`} />`}
      ${picture && html`<img class="result-image" src=${picture} alt=${`Content of ${resource.uri ?? "a resource"}`} />`}
      ${!picture && resource.blob && html`<${Unshown} block=${{ type: "resource", mimeType: resource.mimeType, data: resource.blob }} />`}
    </div>
  `;
}

/** A block that could be dangerous to show, or of an unknown type. @param {{block: Api.Block}} given */
function Unshown({ block }) {
  const size = typeof block.data === "string" ? bytes(Math.floor((block.data.length * 3) / 4)) : "";
  return html`<p class="quiet-text" data-testid="block-unshown">
    ${[block.type, block.mimeType, size].filter(Boolean).join(", ")}: not shown here.
  </p>`;
}

/** An address from a server, in full. Only an address of the web is a link. @param {{address: unknown}} given */
export function Address({ address }) {
  const web = webAddress(address);
  if (web)
    return html`<a class="path" href=${web} target="_blank" rel="noopener noreferrer" data-testid="address">${web}</a>`;
  return html`<span class="path" data-testid="address">${String(address ?? "")}</span>`;
}

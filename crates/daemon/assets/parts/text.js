// Text from servers and files, unchanged, in a box that the keyboard can scroll.

import { html } from "../html.js";

/** @param {{text: string, label: string, testid?: string, tall?: boolean}} given */
export function Text({ text, label, testid = "text", tall = false }) {
  return html`<pre
    class=${tall ? "text tall" : "text"}
    tabindex="0"
    role="group"
    aria-label=${label}
    data-testid=${testid}
  >
${text}</pre>`;
}

/**
 * A sentence of our own messages. The parts between backticks, which name things, are shown as code.
 * @param {string} sentence
 */
export function spoken(sentence) {
  const parts = sentence.split("`");
  // A single backtick is just a backtick.
  if (parts.length % 2 === 0) return sentence;
  return parts.map((part, index) => (index % 2 === 1 ? html`<code>${part}</code>` : part));
}

/** A difference between two versions of a file. @param {{diff: string}} given */
export function Diff({ diff }) {
  if (diff.trim() === "") return html`<p class="quiet-text">The change makes no difference.</p>`;
  const lines = diff.replace(/\n$/, "").split("\n");
  return html`
    <pre class="text diff" tabindex="0" role="group" aria-label="What changes" data-testid="diff">
${lines.map((line) => html`<span class=${kindOf(line)}>${line}${"\n"}</span>`)}</pre>
  `;
}

/** @param {string} line */
function kindOf(line) {
  if (line.startsWith("+++") || line.startsWith("---") || line.startsWith("@@")) return "about";
  if (line.startsWith("+")) return "added";
  return line.startsWith("-") ? "removed" : "";
}

/** What an empty page shows, with the next step. @param {{title: string, children?: unknown, testid?: string}} given */
export function Empty({ title, children, testid = "empty" }) {
  return html`<div class="empty" data-testid=${testid}>
    <h2>${title}</h2>
    ${children}
  </div>`;
}

/** What a page shows while it fetches for the first time. */
export function Waiting() {
  return html`<p class="waiting" aria-live="polite">Loading…</p>`;
}

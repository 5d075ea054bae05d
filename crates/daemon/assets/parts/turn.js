// A turn of a conversation: the user's message, and the answer with its calls.

import { duration, json, tokens } from "../format.js";
import { html, useEffect, useMemo, useState } from "../html.js";
import { isSilent } from "../turn.js";
import { CopyButton } from "./copy.js";
import { Markdown } from "./markdown.js";
import { Trouble } from "./problem.js";
import { Block } from "./result.js";
import { Text } from "./text.js";

/** @typedef {import("../turn.js").Turn} TurnData */

/** The text that is still arriving. Screen readers must not read out half of it. @param {TurnData | undefined} turn */
export function tailOf(turn) {
  const last = turn?.pieces.at(-1);
  return last?.kind === "text" && !last.whole ? last : null;
}

/**
 * The finished pieces of a turn. An unchanged turn is not drawn again.
 * @param {{turn: TurnData, again: (() => void) | null}} given `again` if it failed and can be tried again
 */
export function Turn({ turn, again }) {
  const tail = tailOf(turn);
  return useMemo(
    () => html`
      <article class="turn" data-testid="turn" data-status=${turn.state}>
        ${
          turn.text &&
          html`<div class="message user">
            <h2 class="role">You</h2>
            <p class="said-text" data-testid="asked">${turn.text}</p>
          </div>`
        }
        <div class="message assistant">
          <h2 class="hidden">Answer</h2>
          ${turn.pieces.map((piece) => piece !== tail && html`<${Piece} key=${piece.id} piece=${piece} />`)}
          <${End} turn=${turn} again=${again} />
        </div>
      </article>
    `,
    // While only the last text grows, nothing else is drawn again.
    [tail ? turn.pieces.length : turn, tail?.id, again !== null],
  );
}

/** @param {{piece: import("../turn.js").Piece}} given */
function Piece({ piece }) {
  switch (piece.kind) {
    case "text":
      return html`<div data-testid="answer"><${Markdown} text=${piece.text} /></div>`;
    case "thinking":
      return html`<${Thinking} piece=${piece} />`;
    case "call":
      return html`<${Call} call=${piece} />`;
  }
}

/** The text that is still arriving, and what the turn waits for. @param {{turn: TurnData}} given */
export function Tail({ turn }) {
  const tail = tailOf(turn);
  return html`
    <div class="message assistant tail" aria-live="off" aria-busy="true">
      ${tail && html`<div data-testid="writing"><${Markdown} text=${tail.text} /></div>`}
      ${turn.retry !== null && html`<p class="quiet-text" data-testid="retry">Asking the model again: ${turn.retry}</p>`}
      ${
        isSilent(turn) &&
        html`<p class="silent" data-testid="silent">
          <span class="dot" aria-hidden="true"></span>Waiting for the model…
        </p>`
      }
    </div>
  `;
}

/** @param {{piece: import("../turn.js").ThinkingPiece}} given */
function Thinking({ piece }) {
  return html`
    <details class="thinking" data-testid="thinking" aria-live="off">
      <summary class="quiet-text">${piece.whole ? "Thought about it" : "Thinking…"}</summary>
      <p class="said-text quiet-text">${piece.text}</p>
    </details>
  `;
}

/** The state of a call in words, and its mood. */
const STATES = {
  running: { label: "running", mood: "busy" },
  ok: { label: "ok", mood: "good" },
  failed: { label: "failed", mood: "bad" },
  stopped: { label: "no result", mood: "quiet" },
};

/** A call that the model makes: one line, which opens. @param {{call: import("../turn.js").CallPiece}} given */
function Call({ call }) {
  const { label, mood } = STATES[call.state];
  const given = call.arguments;
  return html`
    <details class="made" data-testid="call" data-status=${call.state}>
      <summary>
        <code>${call.server && html`<span class="server-part">${call.server}/</span>`}${call.tool}</code>${" "}
        <span class=${`mark ${mood}`}>${label}</span>${" "}
        ${call.state === "running" && call.began !== null && html`<${Ticking} since=${call.began} />`}
        ${call.duration !== null && html`<span class="clock">${duration(call.duration)}</span>`}
      </summary>
      <h3>Arguments</h3>
      <${Text} text=${typeof given === "string" ? given : json(given)} label="Arguments" testid="call-arguments" />
      ${
        (call.state === "ok" || call.state === "failed") &&
        html`
          <div class="made-head">
            <h3>${call.server ? `What the server ${call.server} gave back` : "What came back"}</h3>
            ${call.text && html`<${CopyButton} text=${call.text} class="quiet small" />`}
          </div>
          ${call.text ? html`<${Text} text=${call.text} label=${`Data of ${call.server ?? "the tool"}`} testid="call-result" />` : call.parts.length === 0 && html`<p class="quiet-text">Nothing.</p>`}
          ${call.parts.map((part) => html`<${Block} block=${part} />`)}
        `
      }
    </details>
  `;
}

/** How long something has been running; screen readers do not read it out each second. @param {{since: number}} given */
function Ticking({ since }) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, []);
  const passed = Math.floor((now - since) / 1000);
  return passed > 0 && html`<span class="clock" aria-hidden="true">${duration(passed * 1000)}</span>`;
}

/** Texts for turns that end without an answer. @type {Record<string, string>} */
const ENDS = {
  cut: "The answer is cut off here: it became longer than this model may write at once.",
  refused: "The model refused to answer.",
  broken_off: "The provider broke off the answer:",
  round_limit: "It stopped here: so many rounds of calls are the limit of one turn.",
  token_limit: "It stopped here: the turn reached its limit of tokens.",
  cost_limit: "It stopped here: the turn reached its limit of cost.",
  repeating: "It stopped here: the model made the same call again and again.",
  cancelled: "Stopped.",
};

/** How the turn ended, and its cost. @param {{turn: TurnData, again: (() => void) | null}} given */
function End({ turn, again }) {
  const { end, error, state } = turn;
  if (state === "failed")
    return html`<div class="end" data-testid="failed"><${Trouble} error=${error} again=${again} /></div>`;
  if (!end) return null;
  const words = end.end === "answered" ? null : (ENDS[end.end] ?? `It ended early: ${end.end}.`);
  const why = words && end.reason ? `${words} ${end.reason}` : words;
  const cost = costOf(end);
  return html`
    <footer class="end">
      ${why && html`<p class="notice warn" data-testid="ended" data-status=${end.end}>${why}</p>`}
      ${cost && html`<p class="spent" data-testid="spent">${cost}</p>`}
    </footer>
  `;
}

/** @param {Api.TurnEnd} end */
function costOf({ spent, rounds, model }) {
  const used = spent && `${tokens(spent.input_tokens ?? 0)} tokens in, ${tokens(spent.output_tokens ?? 0)} out`;
  const cost = typeof spent?.cost_usd === "number" ? `$${spent.cost_usd.toFixed(4)}` : null;
  return [model, rounds && rounds > 1 ? `${rounds} rounds` : null, used, cost].filter(Boolean).join(" · ");
}

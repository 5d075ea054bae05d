// A question with its answers: an approval, a form, or a page to open.

import { post, Refusal } from "../api.js";
import { parseExact } from "../exact-json.js";
import { json } from "../format.js";
import { html, useId, useLayoutEffect, useRef, useState } from "../html.js";
import { webAddress } from "../links.js";
import { removeQuestion } from "../world.js";
import { Caller } from "./caller.js";
import { Description } from "./description.js";
import { Findings } from "./findings.js";
import { useAction } from "./loaded.js";
import { useNow } from "./now.js";
import { Mark } from "./pill.js";
import { Trouble } from "./problem.js";
import { say } from "./say.js";
import { SchemaForm, useTyped, valueTyped } from "./schema-form.js";
import { Text } from "./text.js";
import { onText } from "./input.js";

/** The server that asks, or the tool that an approval is for. @param {{question: Api.Question}} given */
export function Asker({ question: { kind, server, tool, agent } }) {
  return html`
    <h2 tabindex="-1">
      ${kind === "approval" ? html`<span class="server-part">${server}/</span>${tool}` : html`<span class="server-part">${server}</span> asks`}
    </h2>
    ${agent && html`<${Mark}>agent <span data-testid="of-agent">${agent}</span><//>`}
  `;
}

/** @param {{question: Api.Question, onAnswer: (isAnswered: boolean) => void}} given `onAnswer` is called when an answer is sent (true), and when the daemon refuses it (false) */
export function Question({ question, onAnswer }) {
  const send = useAction(async (/** @type {Record<string, unknown>} */ answer) => {
    // The event that the question is closed may arrive before the daemon's answer.
    onAnswer(true);
    try {
      await post(`/api/v1/approvals/${encodeURIComponent(question.id)}`, answer);
    } catch (error) {
      if (!(error instanceof Refusal) || error.status !== 404) {
        onAnswer(false);
        throw error;
      }
      say("This question is not open any more: it was answered elsewhere, or its call has ended");
    }
    removeQuestion(question.id);
  });
  const { kind, expires_at: expires } = question;
  return html`
    <article class="question panel" data-testid="question" data-status=${kind} data-id=${question.id}>
      <header class="question-head">
        <${Asker} question=${question} />
        ${expires && html`<${Clock} until=${expires} />`}
      </header>
      <${Caller} caller=${question.caller} />
      ${kind === "approval" && html`<${Approval} question=${question} send=${send} />`}
      ${kind === "form" && html`<${Form} question=${question} send=${send} />`}
      ${kind === "url" && html`<${Visit} question=${question} send=${send} />`}
      <${Trouble} error=${send.error} />
    </article>
  `;
}

/** The time that is left to answer. @param {{until: string}} given */
function Clock({ until }) {
  const now = useNow();
  const left = Math.max(0, Math.round((Date.parse(until) - now) / 1000));
  const text = left >= 60 ? `${Math.floor(left / 60)}:${String(left % 60).padStart(2, "0")} min` : `${left} s`;
  return html`<span class=${left < 30 ? "clock soon" : "clock"} title="without an answer in this time, the question is declined">
    ${text} left</span>
  `;
}

/** @typedef {ReturnType<typeof useAction<[Record<string, unknown>], void>>} Send */

/** The answers that cover more than one call, and for which values of `lasting` each is offered. */
const LASTING = [
  {
    answer: "session",
    label: "This session",
    title: "allow calls of this tool until Toolrack ends",
    when: ["session", "always"],
  },
  {
    answer: "always_tool",
    label: "Always this tool",
    title: "allow calls of this tool as long as its definition does not change",
    when: ["always"],
  },
  {
    answer: "always_server",
    label: "Always this server",
    title: "allow calls of every tool that the server has now, as long as the definition of the tool does not change",
    when: ["always"],
  },
];

/** @param {{question: Api.Question, send: Send}} given */
function Approval({ question, send }) {
  const { arguments: given = {}, why, description, read_only: readOnly, destructive, lasting = "once", findings = [] } = question;
  const [edited, setEdited] = useState(/** @type {string | null} */ (null));
  const [reason, setReason] = useState(/** @type {string | null} */ (null));
  const [problem, setProblem] = useState("");
  const id = useId();
  const denying = useFocusMoved(reason !== null);
  const editing = useFocusMoved(edited !== null);
  const allow = (/** @type {string} */ answer) => {
    // If the arguments are unchanged, they are not sent: the call runs with exactly what the caller wrote.
    if (edited === null || edited === json(given)) return send.run({ answer });
    let changed;
    try {
      changed = parseExact(edited);
    } catch {
      return setProblem("the arguments are not JSON");
    }
    setProblem("");
    return send.run({ answer, arguments: changed });
  };
  return html`
    <p class="marks">
      ${readOnly && html`<${Mark} mood="good">read-only<//>`}${destructive && html`<${Mark} mood="bad">destructive<//>`}
      ${why && html`<span class="quiet-text">${why}</span>`}
    </p>
    <${Findings} findings=${findings} />
    ${description && html`<${Description} text=${description} />`}
    ${
      edited === null
        ? html`<${Text} text=${json(given)} label="Arguments" testid="arguments" />
            <p>
              <button
                ref=${editing.off}
                type="button"
                class="small"
                onClick=${() => setEdited(json(given))}
                data-testid="edit-arguments"
              >
                Edit the arguments
              </button>
            </p>`
        : html`
            <label class="field">
              <span class="label">Arguments</span>
              <textarea
                ref=${editing.on}
                class="code"
                rows=${Math.min(16, edited.split("\n").length + 1)}
                spellcheck=${false}
                aria-invalid=${problem !== ""}
                value=${edited}
                onInput=${onText(setEdited)}
                data-testid="arguments-edit"
              />
            </label>
            <p><button type="button" class="small" onClick=${() => setEdited(null)}>Undo the changes</button></p>
          `
    }
    ${problem && html`<p class="field-problem" role="alert">${problem}</p>`}
    ${
      reason === null
        ? html`
            <div class="answers">
              <button
                type="button"
                class="primary"
                disabled=${send.busy}
                onClick=${() => allow("once")}
                data-testid="once"
              >
                Allow once
              </button>
              ${LASTING.filter((choice) => choice.when.includes(lasting)).map(
                (choice) => html`
                  <button
                    key=${choice.answer}
                    type="button"
                    disabled=${send.busy}
                    title=${choice.title}
                    onClick=${() => allow(choice.answer)}
                    data-testid=${choice.answer.replace("_", "-")}
                  >
                    ${choice.label}
                  </button>
                `,
              )}
              <button
                ref=${denying.off}
                type="button"
                class="danger"
                disabled=${send.busy}
                onClick=${() => setReason("")}
                data-testid="deny"
              >
                Deny…
              </button>
            </div>
          `
        : html`
            <div class="field">
              <label class="label" for=${id}>Why not? <span class="optional">optional; the model reads your reason</span></label>
              <input ref=${denying.on} id=${id} value=${reason} onInput=${onText(setReason)} data-testid="deny-reason" />
            </div>
            <div class="answers">
              <button
                type="button"
                class="danger"
                disabled=${send.busy}
                onClick=${() => send.run({ answer: "deny", ...(reason.trim() && { why: reason.trim() }) })}
                data-testid="deny-send"
              >
                Deny
              </button>
              <button type="button" onClick=${() => setReason(null)}>Back</button>
            </div>
          `
    }
  `;
}

/**
 * Moves the focus when one element takes the place of another: to the element `on` when `isOn` becomes true, and to `off`
 * when it becomes false.
 * @param {boolean} isOn
 */
function useFocusMoved(isOn) {
  const on = useRef(/** @type {HTMLElement | null} */ (null));
  const off = useRef(/** @type {HTMLElement | null} */ (null));
  const before = useRef(isOn);
  useLayoutEffect(() => {
    if (before.current === isOn) return;
    before.current = isOn;
    (isOn ? on : off).current?.focus();
  }, [isOn]);
  return { on, off };
}

/** @param {{question: Api.Question, send: Send}} given */
function Form({ question, send }) {
  const [typed, setTyped] = useTyped(question.schema ?? {}, {});
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    const { value, problems } = valueTyped(typed);
    setTyped({ ...typed, touched: true });
    if (problems.length === 0) send.run({ answer: "accept", content: value });
  };
  return html`
    <form onSubmit=${submit} noValidate>
      <p class="description whole">${question.message}</p>
      <p class="quiet-text">The server ${question.server} gets what you write here. Never give it a password.</p>
      <${SchemaForm} typed=${typed} onChange=${setTyped} label="Your answer" />
      <div class="answers">
        <button type="submit" class="primary" disabled=${send.busy} data-testid="accept">Send</button>
        <${Refuse} send=${send} />
      </div>
    </form>
  `;
}

/** @param {{question: Api.Question, send: Send}} given */
function Visit({ question, send }) {
  const address = webAddress(question.url);
  return html`
    <p class="description whole">${question.message}</p>
    <p class="quiet-text">The server wants you to open this page. Check the address first:</p>
    <p class="path big" data-testid="address">${address ?? String(question.url ?? "")}</p>
    ${address === null && html`<p class="notice bad">This is not a web address, so it cannot be opened from here.</p>`}
    <div class="answers">
      ${address && html`<a class="button primary" href=${address} target="_blank" rel="noopener noreferrer" onClick=${() => send.run({ answer: "accept" })} data-testid="open">Open ${new URL(address).host}</a>`}
      <${Refuse} send=${send} />
    </div>
  `;
}

/** The two ways to say no. @param {{send: Send}} given */
function Refuse({ send }) {
  return html`
    <button type="button" disabled=${send.busy} onClick=${() => send.run({ answer: "decline" })} data-testid="decline">
      Decline
    </button>
    <button
      type="button"
      disabled=${send.busy}
      onClick=${() => send.run({ answer: "cancel" })}
      data-testid="cancel-question"
    >
      Cancel
    </button>
  `;
}

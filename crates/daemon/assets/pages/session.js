// One stored conversation, with its calls.

import { ask, call, transcript } from "../api.js";
import { counted, day, json, moment, time, tokens } from "../format.js";
import { html, useState } from "../html.js";
import { me } from "../me.js";
import { Confirm } from "../parts/dialog.js";
import { useAction, useLoaded } from "../parts/loaded.js";
import { Head } from "../parts/page.js";
import { Trouble } from "../parts/problem.js";
import { Block } from "../parts/result.js";
import { say } from "../parts/say.js";
import { Text, Waiting } from "../parts/text.js";
import { go, hashOf } from "../router.js";

/** @param {{id: string}} given */
export function Session({ id }) {
  const path = `/api/v1/sessions/${encodeURIComponent(id)}`;
  const loaded = useLoaded((signal) => transcript(path, signal), [path]);
  const [asking, setAsking] = useState(false);
  const save = useAction((/** @type {string} */ format) => download(path, format));
  const up = { href: "#/sessions", label: "Sessions" };
  if (!loaded.data)
    return html`<${Head}
        title="Session"
        up=${up}
      />${loaded.error ? html`<${Trouble} error=${loaded.error} again=${loaded.again} />` : html`<${Waiting} />`}`;
  const { session, messages } = /** @type {{session: Api.Session, messages: Api.Message[]}} */ (loaded.data);
  const isOwn = !session.owner || session.owner.id === me.value?.id;
  const remove = async () => {
    await call(path, { method: "DELETE" });
    say("Deleted the conversation");
    go(["sessions"]);
  };
  return html`
    <${Head} title=${session.title || "Without a title"} up=${up} about=${aboutOf(session)}>
      ${isOwn && html`<a class="button primary" href=${hashOf(["chat", session.id])} data-testid="go-on">Go on with this</a>`}
      <button type="button" disabled=${save.busy} onClick=${() => save.run("md")} data-testid="export-md">
        Export Markdown
      </button>
      <button type="button" disabled=${save.busy} onClick=${() => save.run("json")} data-testid="export-json">
        Export JSON
      </button>
      <button type="button" class="danger" onClick=${() => setAsking(true)} data-testid="delete">Delete</button>
    <//>
    <${Trouble} error=${save.error} />
    <ol class="transcript" data-testid="transcript">
      ${messages.filter(({ role }) => role !== "tool").map((message) => html`<${Message} key=${message.id} message=${message} results=${messages} />`)}
    </ol>
    ${session.open_turn && isOwn && html`<p class="notice warn">The last turn is not finished. <a href=${hashOf(["chat", session.id])}>Go on with it here</a>, or with <code>toolrack chat --resume ${session.prefix}</code>.</p>`}
    ${asking && html`<${Confirm} title="Delete this conversation?" action="Delete" danger=${true} onClose=${() => setAsking(false)} doIt=${remove}><p>${session.title || "Without a title"}, ${counted(session.messages, "message")}. This cannot be taken back.</p><//>`}
  `;
}

/** @param {Api.Session} session */
function aboutOf({ owner, model, agent, created_at: created, messages, spent }) {
  const used = spent ? `${tokens(spent.input_tokens ?? 0)} tokens in, ${tokens(spent.output_tokens ?? 0)} out` : null;
  const cost = typeof spent?.cost_usd === "number" ? `$${spent.cost_usd.toFixed(4)}` : null;
  return [owner?.name, agent, model, day(created), counted(messages, "message"), used, cost].filter(Boolean).join(" · ");
}

/**
 * Fetches the export, which needs the token, and offers it as a file.
 * @param {string} path
 * @param {string} format
 */
async function download(path, format) {
  const response = await ask(`${path}/export?format=${format}`);
  const named = /filename="([^"/\\]+)"/.exec(response.headers.get("content-disposition") ?? "")?.[1];
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await response.blob());
  link.download = named ?? `session.${format}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** @type {Record<string, string>} */
const SPEAKERS = { user: "You", assistant: "Model", system: "System" };

/** @param {{message: Api.Message, results: Api.Message[]}} given */
function Message({ message, results }) {
  const { role, content, timestamp, tool_calls: calls, parts } = message;
  return html`
    <li class=${`message ${role}`} data-testid="message" data-status=${role}>
      <p class="role">
        ${SPEAKERS[role] ?? role} <time datetime=${timestamp} title=${moment(timestamp)}>${time(timestamp)}</time>
      </p>
      ${content && html`<p class="said-text">${content}</p>`}
      ${(parts ?? []).map((part) => html`<${Block} block=${part} />`)}
      ${(calls ?? []).map((one) => html`<${Made} key=${one.id} made=${one} result=${results.find(({ role: who, tool_call_id: id }) => who === "tool" && id === one.id)} />`)}
    </li>
  `;
}

/** A call that the model made. @param {{made: Api.ToolCall, result?: Api.Message}} given */
function Made({ made, result }) {
  const mood = result ? (result.is_error ? "bad" : "good") : "quiet";
  const label = result ? (result.is_error ? "failed" : "ok") : "no result";
  return html`
    <details class="made" data-testid="tool-call" data-status=${label}>
      <summary><code>${made.name}</code> <span class=${`mark ${mood}`}>${label}</span></summary>
      <h3>Arguments</h3>
      <${Text} text=${typeof made.input === "string" ? made.input : json(made.input)} label="Arguments" />
      ${
        result &&
        html`<h3>Result</h3>
          <${Text}
            text=${result.content}
            label="Result"
          />${(result.parts ?? []).map((part) => html`<${Block} block=${part} />`)}`
      }
    </details>
  `;
}

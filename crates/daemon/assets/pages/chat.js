// A conversation with a model, over the tools of the servers.

import { get } from "../api.js";
import { html, useEffect } from "../html.js";
import { Chooser } from "../parts/choice.js";
import { Composer } from "../parts/composer.js";
import { useLoaded } from "../parts/loaded.js";
import { Head } from "../parts/page.js";
import { Trouble } from "../parts/problem.js";
import { Questions } from "../parts/questions.js";
import { useEnd } from "../parts/scroll.js";
import { Empty, spoken, Waiting } from "../parts/text.js";
import { Tail, Turn } from "../parts/turn.js";
import { go, hashOf, settle } from "../router.js";
import { again, begin, choice, draft, resume, say, stop, conversation } from "../conversation.js";
import { configTurn, questions } from "../world.js";

/** @param {{session: string | null}} given */
export function Chat({ session }) {
  const { session: current, title, turns, state, open, error } = conversation.value;
  const loaded = useLoaded((signal) => get("/api/v1/model", signal), [configTurn.value]);
  const model = /** @type {Api.Model | null} */ (loaded.data);
  useEffect(() => {
    if (session && session !== current) resume(session);
  }, [session, current]);
  // A conversation gets its address once the daemon has stored something of it. A user who returns to the chat returns to it.
  useEffect(() => {
    if (!session && current) settle(["chat", current]);
  }, [session, current]);
  const end = useEnd();
  const restart = () => {
    go(["chat"]);
    begin();
  };
  const send = () => {
    const text = draft.peek();
    draft.value = "";
    end.go();
    say(text);
  };
  const last = turns.at(-1);
  const isGoing = state === "running" || state === "stopping";
  const answers = Boolean(model && (choice.value.model.trim() || model.model));
  const canAsk = state === "idle" && answers;
  return html`
    <${Head} title="Chat" help="chat">
      ${current && html`<a class="button" href=${hashOf(["sessions", current])} data-testid="as-session">In Sessions</a>`}
      ${(turns.length > 0 || error !== null) && html`<button type="button" onClick=${restart} data-testid="new">New conversation</button>`}
    <//>
    ${model && html`<${Chooser} key=${current} model=${model} title=${title} />`}
    <${Trouble} error=${loaded.error} again=${loaded.again} />
    <${Trouble} error=${error} again=${current ? () => resume(current) : null} />
    ${(state === "loading" || (!model && !loaded.error)) && html`<${Waiting} />`}
    ${model && !answers && html`<${NoModel} model=${model} again=${loaded.again} />`}
    ${answers && turns.length === 0 && state === "idle" && error === null && html`<${Beginning} />`}
    <div class="talk" role="log" aria-live="polite" aria-label="Conversation" data-testid="talk">
      ${turns.map((turn) => html`<${Turn} key=${turn.id} turn=${turn} again=${turn === last && canAsk ? again : null} />`)}
    </div>
    ${isGoing && last && html`<${Tail} turn=${last} />`}
    <${Asked} isGoing=${isGoing} />
    ${open && canAsk && last?.state !== "failed" && html`<${Interrupted} />`}
    ${
      answers &&
      html` <div class="dock">
        ${!end.isThere && html`<button type="button" class="small to-end" onClick=${end.go} data-testid="to-end">To the end</button>`}
        <${Composer}
          text=${draft.value}
          onChange=${(/** @type {string} */ text) => (draft.value = text)}
          onSend=${send}
          onStop=${stop}
          state=${state}
        />
      </div>`
    }
  `;
}

/** @param {{model: Api.Model, again: () => void}} given */
function NoModel({ model, again }) {
  const { message = "no model is configured", hint } = model.error ?? {};
  return html`
    <${Empty} title="No model answers yet" testid="no-model">
      <p>${spoken(message)}</p>
      ${hint && html`<p class="hint">${spoken(hint)}</p>`}
      <p class="actions">
        <button type="button" class="primary" onClick=${again}>Look again</button
        ><a class="button" href="#/config">Configuration</a>
      </p>
    <//>
  `;
}

function Beginning() {
  return html`
    <${Empty} title="Ask something" testid="beginning">
      <p>
        The model may use the tools of your servers. What could change something waits for your word first, here.
      </p>
    <//>
  `;
}

/** The questions that have come since the turn began. @param {{isGoing: boolean}} given */
function Asked({ isGoing }) {
  const { turn: turnId, before } = conversation.value;
  // Questions of agents do not belong to this conversation.
  const isMine = (/** @type {Api.Question} */ { id, agent, caller }) =>
    caller ? caller.request === turnId : !agent && !before.includes(id);
  const mine = isGoing ? questions.value.filter(isMine) : [];
  return html`
    <p class="hidden" role="status">${mine.length > 0 ? "A question waits for your answer." : ""}</p>
    <${Questions} waiting=${mine} inline=${true} />
  `;
}

function Interrupted() {
  return html`
    <div class="notice warn first" data-testid="interrupted">
      <div><p>The last answer was interrupted. Its text so far is kept.</p></div>
      <button type="button" class="primary" onClick=${() => say("")} data-testid="go-on">Go on</button>
    </div>
  `;
}

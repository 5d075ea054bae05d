// The choice of the model that answers, and of its tools.

import { patternsIn } from "../choice.js";
import { counted } from "../format.js";
import { html, useId, useState } from "../html.js";
import { choose, choice } from "../conversation.js";
import { may } from "../me.js";
import { overview, servers } from "../world.js";
import { onText, onTick } from "./input.js";

/** Shows the chosen model and tools, and a button to change them. @param {{model: Api.Model, title: string | null}} given */
export function Chooser({ model, title }) {
  const [open, setOpen] = useState(false);
  const id = useId();
  const answers = choice.value.model.trim() || model.model;
  return html`
    <div class="chooser">
      <p class="about">
        ${answers && html`<span data-testid="model"><code>${answers}</code> answers</span>, with <span data-testid="with-tools">${withTools(choice.value)}</span>`}
        ${title && html` · ${title}`}
        ${" "}<button
          type="button"
          class="small"
          aria-expanded=${open}
          aria-controls=${id}
          onClick=${() => setOpen(!open)}
          data-testid="choose"
        >
          ${open ? "Done" : "Change"}
        </button>
      </p>
      <div id=${id} hidden=${!open}>${open && html`<${Fields} model=${model} />`}</div>
    </div>
  `;
}

/** @param {import("../choice.js").Choice} choice */
function withTools({ servers, tools }) {
  const patterns = patternsIn(tools);
  const like = patterns.length > 0 ? ` like ${patterns.join(", ")}` : "";
  if (servers) return html`the tools${like} of ${counted(servers.length, "server")}`;
  if (like) return `tools${like}`;
  const count = overview.value?.tools;
  return count === undefined ? "all tools" : html`<a href="#/tools">${counted(count, "tool")}</a>`;
}

/** @param {{model: Api.Model}} given */
function Fields({ model }) {
  return html`
    <div class="panel choices" data-testid="choices">
      ${may("operate") && html`<${WhoAnswers} model=${model} />`}
      <${Servers} />
      <${Tools} />
    </div>
  `;
}

const OTHER = "other";

/** @param {{model: Api.Model}} given */
function WhoAnswers({ model }) {
  const id = useId();
  const usable = model.providers.filter(({ usable, default_model: named }) => usable && named);
  const offered = usable.map((provider) => `${provider.name}/${provider.default_model}`);
  const { model: typed } = choice.value;
  const [isOther, setIsOther] = useState(typed !== "" && !offered.includes(typed));
  const pick = (/** @type {string} */ picked) => {
    setIsOther(picked === OTHER);
    choose({ model: picked === OTHER ? "" : picked });
  };
  const without = model.providers.filter(({ usable }) => !usable);
  return html`
    <div class="field">
      <label class="label" for=${id}>Model</label>
      <select id=${id} value=${isOther ? OTHER : typed} onChange=${onText(pick)} data-testid="choose-model">
        <option value="">${model.model ? `As configured: ${model.model}` : "None is configured"}</option>
        ${offered.map((name) => html`<option value=${name}>${name}</option>`)}
        <option value=${OTHER}>Another one…</option>
      </select>
      ${
        isOther &&
        html`<input
            aria-label="Name of the model"
            placeholder="provider/name"
            spellcheck=${false}
            value=${typed}
            onInput=${onText((/** @type {string} */ text) => choose({ model: text }))}
            data-testid="model-name"
          />
          <p class="help">
            With a key: ${usable.map(({ name }) => name).join(", ") || "none"}. On this machine:
            ${" "}${model.providers
              .filter(({ local }) => local)
              .map(({ name }) => name)
              .join(", ")}. ${without.length > 0 && `Other providers need a variable in the environment of the daemon, such as ${without[0].key_variable}.`}
          </p>`
      }
    </div>
  `;
}

function Servers() {
  const { servers: chosen } = choice.value;
  // A chosen server may no longer be configured.
  const known = (servers.value ?? []).filter(({ enabled }) => enabled).map(({ name }) => name);
  const names = [...new Set([...known, ...(chosen ?? [])])].sort();
  const tick = (/** @type {string} */ name, /** @type {boolean} */ on) => {
    const others = (chosen ?? names).filter((one) => one !== name);
    choose({ servers: on ? [...others, name].sort() : others });
  };
  return html`
    <fieldset>
      <legend>Servers</legend>
      <label class="check">
        <input
          type="checkbox"
          checked=${chosen === null}
          onChange=${onTick((/** @type {boolean} */ all) => choose({ servers: all ? null : [] }))}
          data-testid="all-servers"
        />
        All, those that come later too
      </label>
      <div class="ticks">
        ${names.map(
          (name) => html`
            <label class="check" key=${name}>
              <input
                type="checkbox"
                checked=${chosen === null || chosen.includes(name)}
                onChange=${onTick((/** @type {boolean} */ on) => tick(name, on))}
                data-testid="choose-server"
                data-name=${name}
              />
              ${name}
            </label>
          `,
        )}
      </div>
    </fieldset>
  `;
}

function Tools() {
  const id = useId();
  return html`
    <div class="field">
      <label class="label" for=${id}>Only these tools <span class="optional">optional</span></label>
      <input
        id=${id}
        placeholder="git/*, */read_*"
        spellcheck=${false}
        value=${choice.value.tools}
        onInput=${onText((/** @type {string} */ tools) => choose({ tools }))}
        data-testid="choose-tools"
      />
    </div>
  `;
}

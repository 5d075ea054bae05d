// The log of one server, live.

import { get, serverPath } from "../api.js";
import { moment, time } from "../format.js";
import { html, useEffect, useMemo, useRef, useState } from "../html.js";
import { linesSince } from "../merge.js";
import { useLoaded } from "../parts/loaded.js";
import { Trouble } from "../parts/problem.js";
import { Empty, Waiting } from "../parts/text.js";
import { log } from "../world.js";
import { onText, onTick } from "../parts/input.js";

/** The lines that are fetched at first, and the most that are shown. */
const FETCHED = 200;
const MOST = 1000;

/** @param {{server: Api.Server}} given */
export function ServerLogs({ server }) {
  const { name } = server;
  const loaded = useLoaded((signal) => get(serverPath(name, `/logs?limit=${FETCHED}`), signal), [name]);
  const [filter, setFilter] = useState("");
  const [follows, setFollows] = useState(true);
  const events = log.value;
  const lines = useMemo(() => {
    if (!loaded.data) return [];
    const stored = /** @type {Api.LogLine[]} */ (loaded.data.lines);
    return [...stored, ...linesSince(events, name, stored.at(-1)?.at ?? "")].slice(-MOST);
  }, [loaded.data, events]);
  const shown = lines.filter(({ text }) => text.toLowerCase().includes(filter.toLowerCase()));
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    if (follows && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [shown.length, follows]);
  if (!loaded.data)
    return loaded.error ? html`<${Trouble} error=${loaded.error} again=${loaded.again} />` : html`<${Waiting} />`;
  return html`
    <div class="toolbar">
      <label class="search">
        <span class="hidden">Search these lines</span>
        <input type="search" placeholder="Search these lines" value=${filter} onInput=${onText(setFilter)}
      /></label>
      <label class="check"><input type="checkbox" checked=${follows} onChange=${onTick(setFollows)} /> Follow</label>
    </div>
    ${
      lines.length === 0
        ? html`<${Empty} title="Nothing was written yet">
            <p>The server's log messages and its standard error appear here, live.</p><//>
          `
        : html`
            <div class="log" ref=${box} tabindex="0" role="log" aria-label=${`Log of ${name}`} data-testid="log">
              ${shown.map(({ at, level, text }) => html`<p data-status=${level}><time datetime=${at} title=${moment(at)}>${time(at)}</time><span class=${`level ${level}`}>${level}</span><span class="line">${text}</span></p>`)}
            </div>
          `
    }
  `;
}

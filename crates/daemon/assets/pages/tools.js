// All tools of all servers, with a search.

import { get } from "../api.js";
import { counted, tokens } from "../format.js";
import { html, useState } from "../html.js";
import { useLoaded } from "../parts/loaded.js";
import { Head } from "../parts/page.js";
import { Trouble } from "../parts/problem.js";
import { Search } from "../parts/search.js";
import { Empty, Waiting } from "../parts/text.js";
import { ToolList } from "../parts/tool-list.js";
import { refine } from "../router.js";
import { overview, servers, toolsTurn } from "../world.js";
import { onText } from "../parts/input.js";

/** More tools than any world has. */
const ALL = 10_000;

/** The number of tools that are shown at first, and added each time. */
const SHOWN = 200;

/** @param {{query: Record<string, string>}} given */
export function Tools({ query }) {
  const { q = "", server = "", findings = "" } = query;
  const [more, setMore] = useState({ of: "", shown: SHOWN });
  // A new search starts with the first tools.
  const of = JSON.stringify([q, server]);
  // The words may be in any definition, so the daemon searches all of them.
  const limit = findings ? ALL : more.of === of ? more.shown : SHOWN;
  const search = new URLSearchParams({ limit: String(limit), ...(q && { q }), ...(server && { server }) });
  const loaded = useLoaded((signal) => get(`/api/v1/tools?${search}`, signal), [q, server, limit, overview.value?.tools, toolsTurn.value]);
  const found = /** @type {Api.Tools | null} */ (loaded.data);
  const shown = (found?.tools ?? []).filter((tool) => !findings || tool.finding_count > 0);
  const isMore = found !== null && found.tools.length >= limit;
  return html`
    <${Head}
      title="Tools"
      help="tools"
      about=${overview.value ? `${counted(overview.value.tools, "tool")}, whose definitions cost ${tokens(overview.value.tokens)} tokens` : null}
    />
    <div class="toolbar" role="search">
      <${Search} label="Search tools" placeholder="What should it do?" />
      <label class="inline">
        <span class="hidden">Server</span>
        <select onChange=${onText((text) => refine({ ...query, server: text }))} data-testid="server-filter">
          <option value="" selected=${server === ""}>All servers</option>
          ${(servers.value ?? []).map(({ name }) => html`<option value=${name} selected=${name === server}>${name}</option>`)}
        </select>
      </label>
    </div>
    <${Trouble} error=${loaded.error} again=${loaded.again} />
    ${!found && !loaded.error && html`<${Waiting} />`}
    <p class="quiet-text" role="status">
      ${isMore ? `The ${q ? "best" : "first"} ${found.tools.length} are shown.` : ""}
    </p>
    ${findings && html`<p class="filter" data-testid="filter">Only tools with findings. <a href="#/tools">Show all</a></p>`}
    ${shown.length > 0 && html`<${ToolList} tools=${shown} withServer=${true} />`}
    ${
      isMore &&
      html`<p class="actions">
        <button
          type="button"
          disabled=${loaded.loading}
          onClick=${() => setMore({ of, shown: limit + SHOWN })}
          data-testid="more"
        >
          Show ${SHOWN} more
        </button>
      </p>`
    }
    ${found && shown.length === 0 && html`<${None} isSearch=${q !== "" || server !== "" || findings !== ""} />`}
  `;
}

/** @param {{isSearch: boolean}} given */
function None({ isSearch }) {
  if (isSearch) return html`<${Empty} title="Nothing found"><p>Try other words, or all servers.</p><//>`;
  return html`<${Empty} title="No tools yet">
    <p>Tools come with servers. <a href="#/add/import">Import</a> some, or <a href="#/add/form">add one</a>.</p><//>
  `;
}

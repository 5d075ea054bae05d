// The page as a whole: its frame, the sign-in where one is needed, and the part that the address names.

import { effect, html, render, useEffect, useRef } from "./html.js";
import { Access } from "./pages/access.js";
import { Approvals } from "./pages/approvals.js";
import { Audit } from "./pages/audit.js";
import { Chat } from "./pages/chat.js";
import { Config } from "./pages/config.js";
import { Credentials } from "./pages/credentials.js";
import { Help } from "./pages/help.js";
import { Home } from "./pages/home.js";
import { Overview } from "./pages/overview.js";
import { People } from "./pages/people.js";
import { Quotas } from "./pages/quotas.js";
import { ServerAdd } from "./pages/server-add.js";
import { ServerEdit } from "./pages/server-edit.js";
import { Server } from "./pages/server.js";
import { Servers } from "./pages/servers.js";
import { Session } from "./pages/session.js";
import { Sessions } from "./pages/sessions.js";
import { SignIn } from "./pages/sign-in.js";
import { Tool } from "./pages/tool.js";
import { Tools } from "./pages/tools.js";
import { Trust } from "./pages/trust.js";
import { Agents } from "./parts/agents.js";
import { Head } from "./parts/page.js";
import { Trouble } from "./parts/problem.js";
import { Said } from "./parts/say.js";
import { findSession, isLooking, isMember, may, me, signOut, startMe } from "./me.js";
import { backToPlace, hashOf, place, startRouter } from "./router.js";
import { findToken, adoptToken, isOpen, isSignedIn } from "./token.js";
import { connection, fetchAgain, questions, startWorld, trouble, trust } from "./world.js";

/** The sections of the dashboard, each with the right that it needs; some are only for the members of a team. */
const SECTIONS = [
  { id: "", label: "Overview", needs: "see" },
  { id: "chat", label: "Chat", needs: "use" },
  { id: "servers", label: "Servers", needs: "operate" },
  { id: "tools", label: "Tools", needs: "see" },
  { id: "approvals", label: "Approvals", needs: "use" },
  { id: "trust", label: "Trust", needs: "operate" },
  { id: "sessions", label: "Sessions", needs: "use" },
  { id: "audit", label: "Audit", needs: "audit" },
  { id: "config", label: "Configuration", needs: "operate" },
  { id: "people", label: "People", needs: "administer", ofTeam: true },
  { id: "quotas", label: "Quotas", needs: "see", ofTeam: true },
  { id: "credentials", label: "My credentials", needs: "use" },
  { id: "access", label: "My access", needs: "use", ofTeam: true },
  { id: "help", label: "Help", needs: "see" },
];

/** The sections that the person may open; until the daemon has said who the person is, all that are not of a team. */
const sections = () => SECTIONS.filter(({ needs, ofTeam }) => (ofTeam ? isMember() && may(needs) : !me.value || may(needs)));

/** @param {string} id of the section whose waiting items are counted */
function waiting(id) {
  if (id === "approvals") return questions.value.length;
  return id === "trust" ? (trust.value?.pending.length ?? 0) + (trust.value?.quarantined.length ?? 0) : 0;
}

function Navigation() {
  const [current = ""] = place.value.path;
  const nav = useRef(/** @type {HTMLElement | null} */ (null));
  const counts = sections().map(({ id }) => waiting(id)).join(" ");
  // On a narrow screen the sections are a strip, and the current one may be outside of its visible part; counts make it longer.
  useEffect(
    () => nav.current?.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" }),
    [current, counts],
  );
  return html`
    <nav class="sections" aria-label="Sections" ref=${nav}>
      ${sections().map(({ id, label }) => {
        const count = waiting(id);
        const isHere = current === id || (id === "servers" && current === "add");
        return html`
          <a
            href=${hashOf(id ? [id] : [])}
            aria-current=${isHere ? "page" : undefined}
            data-testid=${`nav-${id || "overview"}`}
          >
            ${label}${count > 0 && html` <span class="badge" data-testid=${`nav-count-${id}`}>${count}<span class="hidden"> waiting</span></span>`}
          </a>
        `;
      })}
    </nav>
  `;
}

const LIVE = { live: "Live", connecting: "Connecting…", lost: "Connection lost, trying again…", refused: "Not answered" };

function Connection() {
  const state = connection.value;
  return html`<p class=${`connection ${state}`} role="status" data-testid="connection" data-status=${state}>
    <span class="dot" aria-hidden="true"></span>${LIVE[state]}
  </p>`;
}

/** The person who is signed in, and the button that signs them out. */
function Account() {
  if (!isSignedIn.value || !me.value) return null;
  return html`<p class="account" data-testid="account">
    <span>${me.value.name} <span class="quiet-text">${me.value.tenant}</span></span>
    <button type="button" onClick=${signOut} data-testid="sign-out">Sign out</button>
  </p>`;
}

function Page() {
  const { path, query } = place.value;
  const [section = "", name, ...rest] = path;
  switch (section) {
    case "":
      return !me.value || may("operate") ? html`<${Overview} />` : html`<${Home} />`;
    case "chat":
      return html`<${Chat} session=${name ?? null} />`;
    case "servers":
      if (!name) return html`<${Servers} />`;
      if (rest[0] === "edit") return html`<${ServerEdit} key=${name} name=${name} />`;
      return html`<${Server} key=${name} name=${name} tab=${rest[0] ?? "tools"} />`;
    case "add":
      return html`<${ServerAdd} way=${name ?? "form"} from=${query.from} />`;
    case "tools":
      if (name && rest[0]) return html`<${Tool} key=${path.join("\n")} server=${name} tool=${rest.join("/")} />`;
      return html`<${Tools} query=${query} />`;
    case "approvals":
      return html`<${Approvals} />`;
    case "trust":
      return html`<${Trust} />`;
    case "sessions":
      return name ? html`<${Session} key=${name} id=${name} />` : html`<${Sessions} query=${query} />`;
    case "audit":
      return html`<${Audit} query=${query} />`;
    case "config":
      return html`<${Config} />`;
    case "credentials":
      return html`<${Credentials} key=${name ?? ""} wanted=${name ?? null} />`;
    case "people":
      return html`<${People} />`;
    case "quotas":
      return html`<${Quotas} />`;
    case "access":
      return html`<${Access} />`;
    case "help":
      return html`<${Help} id=${name} anchor=${rest[0]} query=${query} />`;
    default:
      return html`<${Head} title="There is no such page" about=${html`<a href="#/">To the overview</a>`} />`;
  }
}

/** @param {MouseEvent} event Moves the focus to the content, without the router, which does not know this link. */
function skip(event) {
  event.preventDefault();
  document.querySelector("main")?.focus();
}

function App() {
  if (!isOpen.value) return isLooking.value ? null : html`<${SignIn} />`;
  return html`
    <a class="skip" href="#content" onClick=${skip} data-testid="skip">Skip to the content</a>
    <header class="bar">
      <a class="brand" href="#/"><img src="./assets/icon.svg" alt="" width="22" height="22" />Toolrack</a>
      <${Agents} />
      <${Navigation} />
      <${Account} />
      <${Connection} />
    </header>
    <main id="content" tabindex="-1">
      <${Trouble} error=${trouble.value} again=${fetchAgain} />
      <${Page} />
    </main>
    <${Said} />
  `;
}

/** Puts the count of waiting items into the title, so that the user sees it from another tab. */
function titled() {
  const count = questions.value.length;
  const [section = ""] = place.value.path;
  const label = SECTIONS.find(({ id }) => id === section)?.label ?? (section === "add" ? "Add a server" : "");
  document.title = `${count > 0 ? `(${count}) ` : ""}${label ? `${label} · ` : ""}Toolrack`;
}

findToken();
findSession().then(backToPlace);
addEventListener("storage", adoptToken);
// Before the router reads the address, because a token is not an address of a page.
addEventListener("hashchange", findTokenAgain);
startRouter();
startMe();
startWorld();
effect(titled);
render(html`<${App} />`, /** @type {Element} */ (document.getElementById("app")));

/** When the user types the address of a newer launch over the old one, the browser does not load the page anew. */
function findTokenAgain() {
  if (location.hash.startsWith("#token=")) findToken();
}

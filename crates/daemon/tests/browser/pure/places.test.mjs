// Addresses: that of the page, the one with the token, and those from servers.

import assert from "node:assert/strict";
import { test } from "node:test";
import { agentIn, baseIn, pathOf } from "../../../assets/agent.js";
import { ago, bytes, duration, tokens } from "../../../assets/format.js";
import { dataAddress, webAddress } from "../../../assets/links.js";
import { hashOf, placeOf } from "../../../assets/router.js";
import { dropToken, adoptToken, keepToken, refused, token, tokenIn } from "../../../assets/token.js";

test("a_place_survives_its_address", () => {
  for (const [path, query] of [
    [[], {}],
    [["servers", "a/b ?#%", "logs"], {}],
    [["tools"], { q: "read & write", server: "ü" }],
  ]) {
    assert.deepEqual(placeOf(hashOf(path, query)), { path, query });
  }
});

test("the_world_of_an_agent_is_below_its_own_address", () => {
  assert.equal(agentIn(""), null);
  assert.equal(agentIn("?agent="), null);
  assert.equal(agentIn("?agent=a%2Fb+c"), "a/b c");
  assert.equal(pathOf("/api/v1/servers", null), "/api/v1/servers");
  assert.equal(pathOf("/api/v1/servers", "a/b c"), "/agents/a%2Fb%20c/api/v1/servers");
  assert.equal(pathOf("/api/v1/servers", "a", "/tools/rack"), "/tools/rack/agents/a/api/v1/servers");
  assert.equal(pathOf("/api/v1/servers", null, baseIn("/tools/rack/")), "/tools/rack/api/v1/servers");
  assert.equal(baseIn("/"), "");
  assert.equal(pathOf("/api/v1/agents", "coder"), "/api/v1/agents", "who there is, the daemon itself knows");
});

test("an_address_that_the_user_mistyped_is_still_a_place", () => {
  assert.deepEqual(placeOf(""), { path: [], query: {} });
  assert.deepEqual(placeOf("#/"), { path: [], query: {} });
  assert.deepEqual(placeOf("#servers//%E0%A4%A"), { path: ["servers", "%E0%A4%A"], query: {} });
  assert.equal(hashOf(["tools"], { q: "", server: undefined }), "#/tools");
});

test("a_token_is_found_only_where_it_belongs", () => {
  assert.equal(tokenIn("#token=a%2Bb"), "a+b");
  assert.equal(tokenIn("#token=abc&x=1"), "abc");
  assert.equal(tokenIn("#/servers?token=abc"), null);
  assert.equal(tokenIn("#token=%E0"), "%E0");
});

test("an_old_tab_leaves_the_token_of_a_new_launch_alone", () => {
  const kept = new Map();
  globalThis.localStorage = /** @type {any} */ ({
    getItem: (name) => kept.get(name) ?? null,
    setItem: (name, value) => kept.set(name, value),
    removeItem: (name) => kept.delete(name),
  });
  const state = () => [token.peek(), refused.peek(), ...kept.values()];
  keepToken("old");
  // The user has opened another tab with the address of the new launch.
  kept.set("toolrack.token", "new");
  dropToken("old");
  assert.deepEqual(state(), ["new", false, "new"], "it is taken here, too");
  dropToken("old");
  assert.deepEqual(state(), ["new", false, "new"], "a late answer to what was asked with the old one changes nothing");
  dropToken("new");
  assert.deepEqual(state(), [null, true]);
  adoptToken({ key: "other", newValue: "x" });
  adoptToken({ key: "toolrack.token", newValue: null });
  assert.equal(token.peek(), null);
  adoptToken({ key: "toolrack.token", newValue: "newest" });
  assert.deepEqual(state(), ["newest", false]);
});

test("a_page_whose_browser_stores_nothing_remembers_its_token_itself", () => {
  const before = Object.getOwnPropertyDescriptor(globalThis, "localStorage");
  const forbidden = () => {
    throw new DOMException("Access is denied for this document", "SecurityError");
  };
  Object.defineProperty(globalThis, "localStorage", { get: forbidden, configurable: true });
  keepToken("one");
  assert.deepEqual([token.peek(), refused.peek()], ["one", false]);
  keepToken("two");
  dropToken("one");
  assert.equal(token.peek(), "two", "the answer to a request with an older token changes nothing");
  dropToken("two");
  assert.deepEqual([token.peek(), refused.peek()], [null, true]);
  Object.defineProperty(globalThis, "localStorage", before ?? { value: undefined, configurable: true, writable: true });
});

test("only_addresses_of_the_web_can_be_followed", () => {
  assert.equal(webAddress("https://example.com/a?b#c"), "https://example.com/a?b#c");
  for (const bad of [
    "javascript:alert(1)",
    " javascript:alert(1)",
    "JaVaScRiPt:alert(1)",
    "java\nscript:alert(1)",
    "data:text/html,x",
    "file:///etc/passwd",
    "//example.com",
    "/x",
    "",
    null,
    {},
  ]) {
    assert.equal(webAddress(bad), null, String(bad));
  }
});

test("an_address_that_only_looks_like_another_is_shown_as_what_it_is", () => {
  assert.equal(webAddress("https://bank.example@evil.example/"), "https://bank.example@evil.example/");
  assert.equal(webAddress("https://аpple.com/"), "https://xn--pple-43d.com/", "with a Cyrillic letter");
});

test("only_pictures_and_sounds_that_hold_no_script_are_shown", () => {
  assert.equal(dataAddress("image/png", "AAAA", "picture"), "data:image/png;base64,AAAA");
  assert.equal(dataAddress("Image/PNG; x=y", "AA\nAA==", "picture"), "data:image/png;base64,AAAA==");
  assert.equal(dataAddress("audio/wav", "AAAA", "sound"), "data:audio/wav;base64,AAAA");
  for (const [type, data, kind] of [
    ["image/svg+xml", "AAAA", "picture"],
    ["text/html", "AAAA", "picture"],
    ["audio/wav", "AAAA", "picture"],
    ["image/png", 'A"><x', "picture"],
    [undefined, "AAAA", "picture"],
    ["image/png", undefined, "picture"],
  ]) {
    assert.equal(dataAddress(type, data, kind), null, `${type} ${data}`);
  }
});

test("figures_are_short", () => {
  assert.deepEqual([950, 1234, 34_567].map(tokens), ["950", "1.2k", "35k"]);
  assert.deepEqual([12.4, 1500, 61_000, 3_700_000, 90_000_000].map(duration), [
    "12 ms",
    "1.5 s",
    "1 min 1 s",
    "1 h 1 min",
    "1 d 1 h",
  ]);
  assert.deepEqual([12, 2048, 3_145_728].map(bytes), ["12 B", "2.0 KiB", "3.0 MiB"]);
  const now = Date.parse("2026-11-22T08:00:00Z");
  assert.deepEqual(
    ["07:59:58", "07:59:00", "06:00:00"].map((at) => ago(`2026-11-22T${at}Z`, now)),
    ["just now", "1 min ago", "2 h ago"],
  );
});

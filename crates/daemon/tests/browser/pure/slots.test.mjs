// Slow requests, with and without locks that the pages of a browser share.

import assert from "node:assert/strict";
import { test } from "node:test";
import { inPlace } from "../../../assets/slots.js";

/** Runs a slow request in a browser with these locks. */
async function withLocks(locks) {
  const before = Object.getOwnPropertyDescriptor(globalThis, "navigator");
  Object.defineProperty(globalThis, "navigator", { value: { locks }, configurable: true });
  try {
    return await inPlace(new AbortController().signal, async () => "done");
  } finally {
    Object.defineProperty(globalThis, "navigator", before ?? { value: undefined, configurable: true });
  }
}

test("a_slow_request_runs_in_a_slot_and_without_one_where_the_browser_has_or_allows_no_locks", async () => {
  assert.equal(await withLocks({ request: async (_name, _options, take) => take() }), "done");
  assert.equal(await withLocks(undefined), "done");
  const request = () => Promise.reject(new DOMException("Access to the Locks API is denied", "SecurityError"));
  assert.equal(await withLocks({ request }), "done");
});

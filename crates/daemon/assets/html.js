// What every page of the dashboard is written with. No other module names the vendored files.

import htm from "./vendor/htm.js";
import { h } from "./vendor/preact.js";
import { visible } from "./visible.js";

export { Fragment, render } from "./vendor/preact.js";
export { useEffect, useId, useLayoutEffect, useMemo, useRef, useState } from "./vendor/preact-hooks.js";
export { batch, computed, effect, signal } from "./vendor/preact-signals.js";

/** Attributes whose text the user reads or a screen reader reads out. The value of a field is not among them: the user typed it. */
const READ = ["alt", "aria-label", "label", "placeholder", "title"];

/**
 * Makes a node. Deceptive characters are spelled out here, where all text passes, so that no page can forget to.
 * @param {any} type
 * @param {Record<string, unknown> | null} props
 * @param {unknown[]} children
 */
function node(type, props, ...children) {
  const shown = typeof type === "string" && props ? { ...props } : props;
  for (const name of READ) if (shown && shown !== props && name in shown) shown[name] = readable(shown[name]);
  return h(type, /** @type {any} */ (shown), .../** @type {any[]} */ (children.map(readable)));
}

/** @param {unknown} child @returns {unknown} */
function readable(child) {
  if (typeof child === "string") return visible(child);
  return Array.isArray(child) ? child.map(readable) : child;
}

/**
 * A template that makes nodes and never markup: each `${…}` becomes text or an attribute, whatever it contains.
 * @type {(strings: TemplateStringsArray, ...values: unknown[]) => View}
 */
export const html = /** @type {any} */ (htm.bind(node));

/** @typedef {import("./vendor/preact.js").VNode<any> | null} View */

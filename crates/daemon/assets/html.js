// What every page is written with: one place names the vendored files.

import htm from "./vendor/htm.js";
import { h } from "./vendor/preact.js";
import { visible } from "./visible.js";

export { Fragment, render } from "./vendor/preact.js";
export { useEffect, useId, useLayoutEffect, useMemo, useRef, useState } from "./vendor/preact-hooks.js";
export { batch, computed, effect, signal } from "./vendor/preact-signals.js";

/** Attributes that are read or read out. What is typed into a field is none of them: it is the user's value. */
const READ = ["alt", "aria-label", "label", "placeholder", "title"];

/**
 * A node none of whose text can deceive. It is done here, where all text passes, and not where each is shown.
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
 * A template that makes nodes, never markup: what stands in `${…}` becomes text or an attribute, whatever it contains.
 * @type {(strings: TemplateStringsArray, ...values: unknown[]) => View}
 */
export const html = /** @type {any} */ (htm.bind(node));

/** @typedef {import("./vendor/preact.js").VNode<any> | null} View */

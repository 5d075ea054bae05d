// What every page is written with: one place names the vendored files.

import htm from "./vendor/htm.js";
import { h } from "./vendor/preact.js";

export { Fragment, render } from "./vendor/preact.js";
export { useEffect, useId, useMemo, useRef, useState } from "./vendor/preact-hooks.js";
export { batch, computed, effect, signal } from "./vendor/preact-signals.js";

/**
 * A template that makes nodes, never markup: what stands in `${…}` becomes text or an attribute, whatever it contains.
 * @type {(strings: TemplateStringsArray, ...values: unknown[]) => View}
 */
export const html = /** @type {any} */ (htm.bind(h));

/** @typedef {import("./vendor/preact.js").VNode<any> | null} View */

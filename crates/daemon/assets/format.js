// Numbers, times and lists, as people read them.

import { daemonNow } from "./clock.js";
import { visibleJson } from "./visible.js";

const NUMBER = new Intl.NumberFormat("en");

/** @param {number | null | undefined} value */
export const count = (value) => (value === null || value === undefined ? "–" : NUMBER.format(value));

/**
 * A count with its noun.
 * @param {number} value
 * @param {string} one
 * @param {string} [many]
 */
export const counted = (value, one, many = `${one}s`) => `${count(value)} ${value === 1 ? one : many}`;

/** Tokens, short: `950`, `1.2k`, `34k`. @param {number} value */
export function tokens(value) {
  if (value < 1000) return String(value);
  const thousands = value / 1000;
  return `${thousands < 10 ? thousands.toFixed(1) : Math.round(thousands)}k`;
}

/** @param {number} ms */
export function duration(ms) {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  const whole = Math.round(seconds);
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  const minutes = Math.floor(whole / 60);
  if (minutes < 24 * 60) return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
  return `${Math.floor(minutes / 60 / 24)} d ${Math.floor(minutes / 60) % 24} h`;
}

/** @param {number} value */
export function bytes(value) {
  if (value < 1024) return `${value} B`;
  if (value < 1024 * 1024) return `${(value / 1024).toFixed(1)} KiB`;
  return `${(value / 1024 / 1024).toFixed(1)} MiB`;
}

/**
 * Returns how long ago a time was: `just now`, `5 min ago`; the date, if that is more than a day.
 * @param {string} at RFC 3339
 * @param {number} [now]
 */
export function ago(at, now = daemonNow()) {
  const then = Date.parse(at);
  if (Number.isNaN(then)) return at;
  const seconds = Math.max(0, Math.round((now - then) / 1000));
  if (seconds < 10) return "just now";
  if (seconds < 60) return `${seconds} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 24 * 3600) return `${Math.floor(seconds / 3600)} h ago`;
  return day(at);
}

/** @param {string} at RFC 3339 */
export const day = (at) =>
  new Date(at).toLocaleDateString(undefined, { year: "numeric", month: "short", day: "numeric" });

/** @param {string} at RFC 3339 */
export const time = (at) => new Date(at).toLocaleTimeString(undefined, { hour12: false });

/** The moment in full. @param {string} at RFC 3339 */
export const moment = (at) => new Date(at).toLocaleString();

/** A value as JSON for reading, and for going on with: what is not seen is spelled out as JSON does it. @param {unknown} value */
export const json = (value) => visibleJson(JSON.stringify(value, null, 2) ?? "undefined");

/**
 * Returns the name and the version of a server, as the page shows them.
 * @param {{name: string, version?: string | null, title?: string | null}} info
 */
export const software = ({ name, version, title }) => [title || name, version].filter(Boolean).join(" ");

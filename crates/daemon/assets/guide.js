// Fetches the guide once, when the user first opens it. A page is parsed when it is shown or searched.

import { file } from "./api.js";
import { listed, pageOf } from "./help.js";

/**
 * @typedef {import("./help.js").Page} Page
 * @typedef {object} Guide
 * @property {() => Page[]} pages all pages, in their order
 * @property {(id: string) => Page | null} page
 * @property {(id: string) => (Page | null)[]} around the pages before and after a page
 */

/** @type {Promise<Guide> | null} */
let fetched = null;

/** The guide. One that could not be fetched is fetched again. @returns {Promise<Guide>} */
export function guide() {
  fetched ??= fetchAll().catch((error) => {
    fetched = null;
    throw error;
  });
  return fetched;
}

/** @returns {Promise<Guide>} */
async function fetchAll() {
  const list = listed(await file("help/SUMMARY.md"));
  const texts = await Promise.all(list.map(({ id }) => file(`help/${id}.md`)));
  /** @type {Map<string, Page>} */
  const read = new Map();
  const indexOf = (/** @type {string} */ id) => list.findIndex((one) => one.id === id);
  const page = (/** @type {string | undefined} */ id) => {
    const index = id === undefined ? -1 : indexOf(id);
    if (id === undefined || index < 0) return null;
    const known = read.get(id) ?? pageOf(list[index], texts[index], list);
    read.set(id, known);
    return known;
  };
  const around = (/** @type {string} */ id) => [indexOf(id) - 1, indexOf(id) + 1].map((index) => page(list[index]?.id));
  return { page, around, pages: () => list.flatMap(({ id }) => page(id) ?? []) };
}

// Addresses and pictures that servers name. Nothing of them is taken but what is listed here.

/** The pictures that are shown: none of them can hold a script. */
const PICTURES = ["image/png", "image/jpeg", "image/gif", "image/webp", "image/avif"];

/** The sounds that are played. */
const SOUNDS = [
  "audio/mpeg",
  "audio/mp3",
  "audio/mp4",
  "audio/ogg",
  "audio/wav",
  "audio/x-wav",
  "audio/webm",
  "audio/flac",
  "audio/aac",
];

/**
 * The address, if it is one of the web; null for `javascript:`, `data:`, `file:` and whatever else there is.
 * What is shown must be what is opened, so an address that a browser would write differently comes back in the browser's way.
 * @param {unknown} text
 * @returns {string | null}
 */
export function webAddress(text) {
  if (typeof text !== "string") return null;
  try {
    const url = new URL(text);
    return url.protocol === "https:" || url.protocol === "http:" ? url.href : null;
  } catch {
    return null;
  }
}

/**
 * A `data:` address for a picture or a sound that came as base64; null if its type or its text is not what it should be.
 * @param {unknown} mimeType
 * @param {unknown} base64
 * @param {"picture" | "sound"} kind
 * @returns {string | null}
 */
export function dataAddress(mimeType, base64, kind) {
  if (typeof mimeType !== "string" || typeof base64 !== "string") return null;
  const type = mimeType.split(";")[0].trim().toLowerCase();
  if (!(kind === "picture" ? PICTURES : SOUNDS).includes(type)) return null;
  return /^[A-Za-z0-9+/\s]*={0,2}\s*$/.test(base64) ? `data:${type};base64,${base64.replace(/\s/g, "")}` : null;
}

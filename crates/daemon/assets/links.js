// Addresses and pictures from servers. Only the kinds that are listed here are used.

/** The types of pictures that are shown: none of them can contain a script. */
const PICTURES = ["image/png", "image/jpeg", "image/gif", "image/webp", "image/avif"];

/** The types of sounds that are played. */
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
 * Returns the address, if it is one of the web; null for `javascript:`, `data:`, `file:` and all others. An address that the
 * browser would write differently is returned in the browser's form, so that the page shows exactly what a click opens.
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
 * Returns a `data:` address for a picture or a sound in base64; null if the type is not listed or the text is not base64.
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

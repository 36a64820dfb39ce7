import { createHash, randomUUID } from "node:crypto";
import { hostname } from "node:os";

const LONGEST = 128; // characters of an encoded name; longer ones end with a digest
const READABLE = 48; // characters of a long name before its digest
const HOST = hostname();

/** @param {string} text */
function encoded(text) {
  const hex = (/** @type {string} */ each) => `%${each.charCodeAt(0).toString(16).toUpperCase()}`;
  const name = encodeURIComponent(text).replace(/[!~*'()]/g, hex);
  if (name.length <= LONGEST) return name;
  return `${name.slice(0, READABLE)}~${createHash("sha256").update(text).digest("hex")}`;
}

/** @param {string} name */
const decoded = (name) =>
  name.replace(/(?:%[0-9A-F]{2})+/g, (run) => Buffer.from(run.replaceAll("%", ""), "hex").toString());

/**
 * Return the name of one key of a semaphore in the store.
 * @param {string} semaphore
 * @param {string | null} key
 */
export const resourceName = (semaphore, key) =>
  key === null ? encoded(semaphore) : `${encoded(semaphore)}/${encoded(key)}`;

/**
 * Return the semaphore and the key of a resource; of a long name, its beginning and digest.
 * @param {string} resource
 * @returns {[string, string | null]}
 */
export function namesOf(resource) {
  const [semaphore, key] = resource.split("/");
  return [decoded(semaphore), key === undefined ? null : decoded(key)];
}

/** Return a unique name that shows an operator the host and the process. */
export const newName = () => `${HOST}/${process.pid}:${randomUUID().slice(-17).replace("-", "")}`; // 62 random bits

/** Return the name of this process, as one that declares a limit. */
export const processName = () => `${process.pid}@${HOST}`;

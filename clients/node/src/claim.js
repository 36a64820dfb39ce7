import { namesOf, resourceName } from "./names.js";

const HIGHEST = 2 ** 31 - 1; // limit or weight

/** What each permit of a semaphore takes: `weight` of its `limit`, at its `key`. */
export class Claim {
  /**
   * @param {string} semaphore
   * @param {string | null} key
   * @param {number | null} limit null declares none: the one in force holds
   * @param {number} weight
   */
  constructor(semaphore, key, limit, weight) {
    if (!semaphore) throw new RangeError("a semaphore's name must not be empty");
    checkText("name", semaphore);
    if (key !== null) checkText("key", key);
    if (limit !== null) checkWhole("limit", limit, 0);
    checkWhole("weight", weight, 1);
    if (limit && weight > limit) {
      throw new RangeError(`weight=${weight} is above limit=${limit}: there could never be a permit`);
    }
    this.semaphore = semaphore;
    this.key = key;
    this.limit = limit;
    this.weight = weight;
    this.resource = resourceName(semaphore, key);
    this.packed = this.#packed();
  }

  /** Return the claim as operators' tools read it: JSON in ASCII; a long name is shortened to its beginning and digest. */
  #packed() {
    const names = this.resource.includes("~") ? namesOf(this.resource) : [this.semaphore, this.key];
    const parts = [...names, this.limit, this.weight, this.resource].map((each) => JSON.stringify(each));
    const escape = (/** @type {string} */ each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, "0")}`;
    return `[[${parts.join(", ")}]]`.replace(/[\u007f-\uffff]/g, escape);
  }
}

/** @param {string} option @param {unknown} text */
export function checkText(option, text) {
  if (typeof text !== "string") throw new TypeError(`${option} must be a string, not ${typeof text}`);
  if (!text.isWellFormed()) throw new RangeError(`${option} has half of a surrogate pair`);
}

/** @param {string} option @param {unknown} value @param {number} least */
function checkWhole(option, value, least) {
  if (typeof value !== "number") throw new TypeError(`${option} must be a number, not ${typeof value}`);
  if (!Number.isInteger(value) || value < least || value > HIGHEST) {
    throw new RangeError(`${option}=${value} must be a whole number from ${least} to ${HIGHEST}`);
  }
}

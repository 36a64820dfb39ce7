import * as calls from "./calls.js";

/**
 * @typedef {import("./claim.js").Claim} Claim
 * @typedef {import("./runner.js").Answer} Answer
 */

const MOST_LEFT_OUT = 64; // calls, after each try in vain; then a try costs little more than none
const MOST_KEPT = 10_000;

/** Decides which calls try a shorter way: after each try in vain twice as many calls as before leave it out. */
export class Backoff {
  #left = 0; // calls that are still to go without a try
  #next = 1;

  /** Return whether this call is to try it. */
  isDue() {
    if (this.#left === 0) return true;
    this.#left--;
    return false;
  }

  /** Note whether a try sufficed or was in vain. @param {boolean} sufficed */
  note(sufficed) {
    this.#left = sufficed ? 0 : this.#next;
    this.#next = sufficed ? 1 : Math.min(2 * this.#next, MOST_LEFT_OUT);
  }
}

/**
 * Makes releases of the common case by a short script; see stores/redis/short_calls.py. There is none for acquires: one
 * in vain would stand in line behind the long ones that other calls of the process made since.
 */
export class ShortReleases {
  /** By resource. @type {Map<string, Backoff>} */
  #backoffs = new Map();
  #runner;

  /** @param {import("./runner.js").Runner} runner */
  constructor(runner) {
    this.#runner = runner;
  }

  /**
   * Release a holder or a ticket, of which no short call knows.
   * @param {Claim} claim @param {string} name @returns {Promise<Answer>}
   */
  async release(claim, name) {
    const long = calls.release(claim, name);
    const backoff = this.#backoffOf(claim.resource);
    if (claim.weight !== 1 || !backoff.isDue()) return this.#runner.run(long);
    const { answer, sufficed } = await this.#runner.runShort(calls.shortRelease(claim, name), long);
    backoff.note(sufficed);
    return answer;
  }

  /** @param {string} resource */
  #backoffOf(resource) {
    let backoff = this.#backoffs.get(resource);
    if (!backoff) {
      backoff = new Backoff();
      if (this.#backoffs.size >= MOST_KEPT) this.#backoffs.clear();
      this.#backoffs.set(resource, backoff);
    }
    return backoff;
  }
}

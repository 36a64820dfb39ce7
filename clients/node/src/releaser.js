import { setTimeout as sleep } from "node:timers/promises";
import { StoreUnavailable } from "./errors.js";

const RETRY_PAUSE_MS = 500;

/**
 * Releases; one without an answer is repeated in the background. After a lease the lease of a holder has ended; a place
 * in the line lasts as long as this process asks for any of its waits, so its release is repeated until it is answered.
 */
export class Releaser {
  #isOver = false;
  /** @type {Set<Promise<void>>} */
  #underWay = new Set();
  #store;

  /** @param {import("./store.js").Store} store */
  constructor(store) {
    this.#store = store;
  }

  /**
   * Release a holder or a ticket now, or go on in the background.
   * @param {string} name @param {import("./claim.js").Claim} claim @param {boolean} [isTicket]
   */
  async release(name, claim, isTicket = false) {
    const now = this.#store.release(name, claim);
    this.#note(now.catch(() => {})); // else the end of the connection would cut it off
    try {
      await now;
    } catch (error) {
      if (!(error instanceof StoreUnavailable)) throw error;
      this.later(name, claim, isTicket);
    }
  }

  /** @param {string} name @param {import("./claim.js").Claim} claim @param {boolean} [isTicket] */
  later(name, claim, isTicket = false) {
    this.#note(this.#repeated(name, claim, isTicket));
  }

  /** @param {Promise<void>} releasing */
  #note(releasing) {
    const job = releasing.finally(() => this.#underWay.delete(job));
    this.#underWay.add(job);
  }

  /** Wait for all that is being released, for so long at most; later the leases end it. @param {number} ms */
  async flush(ms) {
    const over = new AbortController();
    const end = sleep(ms, undefined, { signal: over.signal }).catch(() => {});
    const isOver = end.then(() => (this.#isOver = true));
    // A release that fails meanwhile is repeated by a further job.
    while (this.#underWay.size > 0 && !this.#isOver) await Promise.race([Promise.all(this.#underWay), isOver]);
    over.abort();
    this.#isOver = true;
  }

  /** @param {string} name @param {import("./claim.js").Claim} claim @param {boolean} isTicket */
  async #repeated(name, claim, isTicket) {
    const until = isTicket ? Infinity : performance.now() + this.#store.leaseMs;
    for (;;) {
      try {
        return await this.#store.release(name, claim);
      } catch (error) {
        if (!(error instanceof StoreUnavailable)) process.emitWarning(/** @type {Error} */ (error));
        if (!(error instanceof StoreUnavailable) || performance.now() >= until || this.#isOver) return;
      }
      await sleep(RETRY_PAUSE_MS, undefined, { ref: false });
    }
  }
}

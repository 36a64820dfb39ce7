import { setTimeout as sleep } from "node:timers/promises";
import { StoreUnavailable } from "./errors.js";

const RETRY_PAUSE_MS = 500;

/**
 * Releases; one without an answer is repeated in the background. After a lease the lease of a holder has ended. But a
 * place in the line lasts as long as this process asks for any of its waits, and a server that hangs may make an acquire
 * without an answer when it goes on: those releases are repeated until they are answered.
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
   * Release a holder or a ticket now, or go on in the background, for a lease or until it is answered.
   * @param {string} name @param {import("./claim.js").Claim} claim @param {boolean} [untilAnswered]
   */
  async release(name, claim, untilAnswered = false) {
    const now = this.#store.release(name, claim);
    this.#note(now.catch(() => {})); // else the end of the connection would cut it off
    try {
      await now;
    } catch (error) {
      if (!(error instanceof StoreUnavailable)) throw error;
      this.later(name, claim, untilAnswered);
    }
  }

  /** @param {string} name @param {import("./claim.js").Claim} claim @param {boolean} [untilAnswered] */
  later(name, claim, untilAnswered = false) {
    this.#note(this.#repeated(name, claim, untilAnswered));
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

  /** @param {string} name @param {import("./claim.js").Claim} claim @param {boolean} untilAnswered */
  async #repeated(name, claim, untilAnswered) {
    const until = untilAnswered ? Infinity : performance.now() + this.#store.leaseMs;
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

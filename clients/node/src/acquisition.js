import { SemaphoreError, SemaphoreTimeout, StoreUnavailable } from "./errors.js";
import { newName } from "./names.js";
import { Notice } from "./notice.js";
import { Permit } from "./permit.js";
import { constants } from "./scripts.js";

/** @typedef {import("./answers.js").Refusal} Refusal */

const RETRY_DELAY_MS = 1000; // between two attempts while the store fails
const TICKET_RANK = 21; // characters of a ticket before its nonce

/**
 * One acquire; see core/acquisition.py. It asks as the same holder each time, so that it can ask again after a lost
 * answer. With a timeout of 0 it asks once, and is never in line.
 */
export class Acquisition {
  /** @type {{ reason: unknown } | null} */
  #abort = null;
  /** @type {number | null} */
  #asked = null; // before the first call that may have been admitted
  #claim;
  #deadline;
  #holder = newName();
  /** Rejects the step under way. @type {(reason: unknown) => void} */
  #interrupt = () => {};
  #notice = new Notice();
  #store;
  #ticket = "";
  #timeoutMs;
  /** @type {StoreUnavailable | null} */
  #unavailable = null; // of the last attempt
  #unanswered = false;
  /** @type {import("./forecast.js").Waiting | null} */
  #waiting = null;
  #why = "";

  /**
   * @param {import("./store.js").Store} store @param {import("./claim.js").Claim} claim
   * @param {number} timeoutMs
   */
  constructor(store, claim, timeoutMs) {
    this.#store = store;
    this.#claim = claim;
    this.#timeoutMs = timeoutMs;
    this.#deadline = performance.now() + timeoutMs;
  }

  /** Let `permit` reject at once: what it leaves is released in the background. @param {unknown} reason */
  abort(reason) {
    this.#abort ??= { reason };
    this.#interrupt(reason);
    this.#notice.set();
  }

  /** Return the permit. */
  async permit() {
    try {
      return await this.#admitted();
    } catch (error) {
      await this.#giveUp();
      throw this.#abort ? this.#abort.reason : error;
    } finally {
      if (this.#waiting) this.#store.asker.discard(this.#waiting);
    }
  }

  async #admitted() {
    for (;;) {
      if (this.#abort) throw this.#abort.reason;
      let pause;
      try {
        const permit = await this.#attempt();
        if (permit instanceof Permit) return permit;
        this.#unavailable = null;
        pause = permit;
      } catch (error) {
        if (!(error instanceof StoreUnavailable)) throw error;
        [this.#unavailable, this.#why, pause] = [error, error.message, RETRY_DELAY_MS];
      }
      const left = this.#deadline - performance.now();
      if (left <= 0) {
        const message = `semaphore "${this.#claim.semaphore}": no permit in ${this.#timeoutMs} ms: ${this.#why}`;
        throw new SemaphoreTimeout(message, this.#unavailable ? { cause: this.#unavailable } : {});
      }
      if (Math.min(pause, left) > 0) await this.#notice.wait(Math.min(pause, left));
    }
  }

  /** Ask once; return the permit, or the milliseconds until the next attempt. @returns {Promise<Permit | number>} */
  async #attempt() {
    const asked = (this.#asked ??= performance.now());
    const { granted, refusal } = await this.#unlessAborted(this.#ask());
    if (!granted) {
      if (refusal.limit === 0 && this.#claim.limit === null) await this.#unlessAborted(this.#checkKnown());
      return this.#refused(refusal);
    }
    const permit = new Permit(granted, this.#claim, (each) => this.#store.giveBack(each));
    const since = await this.#unlessAborted(this.#confirmed(permit, asked));
    if (since === null) return this.#lost();
    this.#store.keeper.add(permit, since);
    return permit;
  }

  async #ask() {
    const wait = this.#timeoutMs > 0 ? { ticket: this.#ticket, timeoutMs: this.#timeoutMs } : null;
    try {
      const answer = await this.#store.acquire(this.#claim, this.#holder, wait);
      if (answer.refusal) {
        this.#ticket = answer.refusal.ticket || this.#ticket;
        this.#asked = null; // not before the ticket is known: one that gives up needs one of the two
      }
      return answer;
    } catch (error) {
      this.#unanswered ||= error instanceof StoreUnavailable;
      throw error;
    }
  }

  /**
   * Return since when the permit is surely held, null if it is lost: if the answer was read late, as this process was
   * blocked, it is renewed first.
   * @param {Permit} permit @param {number} since
   */
  async #confirmed(permit, since) {
    while (performance.now() - since > this.#store.leaseMs / constants.BEATS) {
      since = performance.now();
      const became = (await this.#store.renew([permit])).get(permit.holder);
      if (!became) throw new StoreUnavailable("the answer was read late, and the permit could not be renewed");
      if (became === "lost") return null;
    }
    return since;
  }

  #lost() {
    this.#why = "its lease ended before the answer was read";
    this.#asked = null;
    this.#holder = newName();
    return 0;
  }

  /** Return the milliseconds until the next attempt, unless it is notified before. @param {Refusal} refusal */
  #refused({ reason, limit, occupied, ticket, position, retryMs, declaredBy }) {
    const why = `${occupied} of ${limit} in use, ${position} waiting before it`;
    this.#why = reason === "timed_out" ? this.#why || why : `${reason}, ${why}`;
    if (declaredBy) this.#why += `; its weight is above the limit that ${declaredBy} declares`;
    if (reason === "timed_out") this.#deadline = 0;
    if (reason === "timed_out") return 0;
    if (reason === "released") {
      // An acquire was admitted, its answer was lost, and the lease ended before the next one.
      this.#holder = newName();
      return 0;
    }
    if (!this.#waiting && ticket) {
      this.#waiting = { nonce: ticket.slice(TICKET_RANK), resource: this.#claim.resource };
      this.#store.asker.add(this.#waiting, this.#notice);
    }
    return retryMs;
  }

  /** Throw where no limit is given here or known to the store; in a grace tasks may declare it. */
  async #checkKnown() {
    const { limit, inGrace } = await this.#store.snapshot(this.#claim);
    if (limit !== null || inGrace) return;
    const at = this.#claim.key === null ? "" : " at this key";
    const message = `no limit is known yet for semaphore "${this.#claim.semaphore}"${at}: give limit, or start the`;
    throw new SemaphoreError(`${message} workers whose tasks declare it`);
  }

  /** Release what it may hold, then leave the line: an acquire on its way then finds the holder released. */
  async #giveUp() {
    const names = this.#unanswered || this.#asked !== null ? [this.#holder] : [];
    if (this.#ticket) names.push(this.#ticket);
    const { releaser } = this.#store;
    for (const name of names) {
      // An error that is not an outage will not pass: the lease ends what is left, and the first error is told.
      const isTicket = name === this.#ticket;
      if (this.#unavailable) releaser.later(name, this.#claim, isTicket);
      else await this.#unlessAborted(releaser.release(name, this.#claim, isTicket)).catch(() => {});
    }
  }

  /** @template T @param {Promise<T>} promise @returns {Promise<T>} */
  #unlessAborted(promise) {
    return new Promise((resolve, reject) => {
      if (this.#abort) reject(this.#abort.reason); // since the last step
      this.#interrupt = reject;
      promise.then(resolve, reject);
    });
  }
}

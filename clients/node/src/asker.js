import { setTimeout as sleep } from "node:timers/promises";
import { StoreUnavailable } from "./errors.js";
import { Forecast } from "./forecast.js";
import { newName } from "./names.js";
import { Notice } from "./notice.js";
import { sweepPause } from "./sweep.js";

/**
 * @typedef {import("./forecast.js").Waiting} Waiting
 * @typedef {{ epoch: number, slept: boolean, sessions: number, granted: string[], expected: Map<string, number> }} Reply
 */

const SLOWEST_MS = 1000;

/**
 * Asks for the grants of all acquires of this process that wait, by one session, and sweeps for them; see
 * core/asker.py.
 */
export class Asker {
  session = newName();
  /** @type {number | null} */
  #epoch = null;
  #forecast = new Forecast((wait) => this.#waiting.get(wait.nonce)?.wait === wait);
  #isAsking = false;
  #missed = false; // a question had no answer, and a grant may have ended meanwhile
  /** @type {Waiting[]} */
  #new = [];
  #came = new Notice();
  #sessions = 0; // the number of awake ones in the last answer
  #store;
  #sweepsAt = performance.now() + sweepPause(this.#sessions);
  /** @type {Map<string, { wait: Waiting, notice: Notice }>} */
  #waiting = new Map();

  /** @param {import("./store.js").Store} store */
  constructor(store) {
    this.#store = store;
  }

  /** Ask for the grant of this wait from now on. @param {Waiting} wait @param {Notice} notice */
  add(wait, notice) {
    this.#waiting.set(wait.nonce, { wait, notice });
    this.#new.push(wait);
    this.#came.set();
    if (!this.#isAsking) void this.#askOn();
  }

  /** @param {Waiting} wait */
  discard(wait) {
    if (this.#waiting.get(wait.nonce)?.wait === wait) this.#waiting.delete(wait.nonce);
    if (this.#waiting.size === 0) this.#came.set(); // nothing is left to ask for
  }

  /** Notify the acquires of this process that these were granted permits. @param {Iterable<string>} granted */
  tell(granted) {
    for (const nonce of granted) this.#waiting.get(nonce)?.notice.set();
  }

  async #askOn() {
    this.#isAsking = true;
    this.#epoch = this.#store.epoch;
    while (this.#waiting.size) {
      this.#forecast.add(this.#new.splice(0));
      await this.#sweep();
      const { pause, least } = await this.#question();
      await sleep(least); // many that come at once must not cause a question each
      if (this.#new.length === 0) await this.#came.wait(pause - least);
    }
    this.#isAsking = false;
  }

  /**
   * Reap if it is time, before the question: its answer then tells what that granted. While the store is away, the
   * questions alone find out when it is back.
   */
  async #sweep() {
    if (this.#missed || performance.now() < this.#sweepsAt) return;
    this.#sweepsAt = performance.now() + sweepPause(this.#sessions);
    try {
      await this.#store.reap();
    } catch (error) {
      if (!(error instanceof StoreUnavailable)) process.emitWarning(/** @type {Error} */ (error));
    }
  }

  /** Ask once; return the milliseconds until the next question, and the fewest of them if a new wait comes. */
  async #question() {
    const first = this.#forecast.first();
    /** @type {Reply | null} */
    let reply = null;
    try {
      reply = await this.#store.ask(this.session, first);
    } catch (error) {
      if (!(error instanceof StoreUnavailable)) process.emitWarning(/** @type {Error} */ (error));
    }
    const now = performance.now();
    this.#forecast.learn(first, reply?.expected ?? new Map(), now);
    if (!reply) {
      this.#missed = true;
      return { pause: SLOWEST_MS, least: SLOWEST_MS };
    }
    // A grant may have ended unheard: then all ask again, and their refusals put them in line again.
    const mayHaveLost = reply.slept || this.#missed || reply.epoch !== this.#epoch;
    this.tell(mayHaveLost ? this.#waiting.keys() : reply.granted);
    this.#missed = false;
    this.#epoch = reply.epoch;
    this.#sessions = reply.sessions;
    return this.#forecast.pause(reply.sessions, now);
  }
}

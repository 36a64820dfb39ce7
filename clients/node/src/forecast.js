import { constants } from "./scripts.js";

const SLOWEST_MS = 1000; // the longest time between two questions while anything waits
const FASTEST_MS = 5; // the shortest
const QUESTIONS = 2; // of all sessions together in a millisecond
const QUIET = 8; // a pause is at least the time in which the line did not move, divided by this

/** @typedef {{ nonce: string, resource: string }} Waiting */

/** Sorts the waits of this process by their expected turns; see core/forecast.py. */
export class Forecast {
  #isWaiting;
  /** @type {{ turn: number, wait: Waiting }[]} */
  #turns = [];
  /** @type {number | null} */
  #changedAt = null;
  /** @type {number | null} */
  #soonest = null;

  /** @param {(wait: Waiting) => boolean} isWaiting */
  constructor(isWaiting) {
    this.#isWaiting = isWaiting;
  }

  /** Ask about these first: their turns are unknown. @param {Waiting[]} waits */
  add(waits) {
    if (waits.length === 0) return;
    this.#changedAt = null;
    this.#expect(waits, () => 0);
  }

  /** @param {Waiting[]} waits @param {(wait: Waiting) => number} turn */
  #expect(waits, turn) {
    const turns = waits.map((wait) => ({ turn: turn(wait), wait }));
    this.#turns = [...this.#turns, ...turns].sort((one, other) => one.turn - other.turn);
  }

  /** Take out the waits to ask about now; `learn` adds them again. */
  first() {
    const before = this.#turns.length;
    this.#turns = this.#turns.filter(({ wait }) => this.#isWaiting(wait));
    if (this.#turns.length < before) this.#changedAt = null;
    return this.#turns.splice(0, constants.EXPECTED).map(({ wait }) => wait);
  }

  /**
   * Note the milliseconds until each turn that the store expects; a turn without an answer is taken for late.
   * @param {Waiting[]} asked @param {Map<string, number>} expected @param {number} now
   */
  learn(asked, expected, now) {
    const soonest = expected.size ? Math.min(...expected.values()) : null;
    if (soonest !== this.#soonest) [this.#soonest, this.#changedAt] = [soonest, null];
    this.#expect(asked, (wait) => now + (expected.get(wait.nonce) ?? 4 * SLOWEST_MS));
  }

  /**
   * Return the milliseconds until the next question, and those before which no new wait brings it forward.
   * @param {number} sessions @param {number} now
   */
  pause(sessions, now) {
    const least = Math.min(Math.max(FASTEST_MS, sessions / QUESTIONS), SLOWEST_MS);
    this.#changedAt ??= now;
    const turn = this.#turns.length ? this.#turns[0].turn - now : 4 * SLOWEST_MS;
    const quiet = (now - this.#changedAt) / QUIET;
    return { pause: Math.min(Math.max(turn / 4, quiet, least), SLOWEST_MS), least };
  }
}

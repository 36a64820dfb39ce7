import { SemaphoreError } from "./errors.js";

/**
 * @typedef {{
 *   reason: string, limit: number, occupied: number, ticket: string, position: number, retryMs: number,
 *   declaredBy: string,
 * }} Refusal
 * @typedef {{
 *   holder: string, token: number, weight: number, acquiredAt: Date, expiresAt: Date, granted: boolean,
 * }} Held a permit, or a grant that its wait has not taken up yet
 */

/** @param {any[]} answer @returns {Refusal} */
export function refusal(answer) {
  const [, reason, , limit, occupied, ticket, position, retryAfter, , declaredBy] = answer;
  // Without a pause it would be asked again at once, for ever.
  if (typeof retryAfter !== "number") throw new SemaphoreError(`the store gave an unknown answer: ${answer.join(" ")}`);
  return { reason, limit, occupied, ticket, position, retryMs: retryAfter / 1000, declaredBy };
}

/** @param {any[]} answer @returns {import("./asker.js").Reply} */
export function reply([epoch, slept, sessions, granted, turns]) {
  const expected = new Map(turns.map((/** @type {[string, number]} */ [nonce, turn]) => [nonce, turn / 1000]));
  return { epoch, slept: slept === 1, sessions, granted, expected };
}

/** @param {any[]} answer */
export function snapshot([, limit, , , , , holders, , grace, paused, , kept]) {
  /** @type {Held[]} */
  const held = holders.map(one).sort((/** @type {Held} */ a, /** @type {Held} */ b) => a.token - b.token);
  const occupied = held.reduce((sum, { weight }) => sum + weight, 0);
  return { limit: limit === "" ? null : limit, held, occupied, inGrace: grace !== "", isPaused: paused !== "", kept };
}

/** @param {any[]} entry @returns {Held} */
function one([holder, token, weight, since, ends, granted]) {
  const [acquiredAt, expiresAt] = [new Date(since / 1000), new Date(ends / 1000)];
  return { holder, token, weight, acquiredAt, expiresAt, granted: granted === 1 };
}

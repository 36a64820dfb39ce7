import { newName, processName } from "./names.js";
import * as scripts from "./scripts.js";
import { FORMAT, constants } from "./scripts.js";

/**
 * A call of a script: the resources that it declares, its own words, and keys after those of the resources.
 * @typedef {{ script: scripts.Script, resources: string[], words: (string | number)[], parts?: string[] }} Call
 * One of a short script, at one resource.
 * @typedef {{ script: scripts.Script, resource: string, words: (string | number)[] }} ShortCall
 * @typedef {import("./claim.js").Claim} Claim
 * @typedef {{ ticket: string, timeoutMs: number, session: string, lease: number }} Wait
 * @typedef {{ holder: string, token: number, since: number, epoch: number, claim: Claim }} Renewable
 */

const LONGEST = 4e15; // microseconds: a double counts no longer times exactly
const PROCESS = `${FORMAT} ${newName().slice(-16)}-${process.pid}`;

/** @param {number} ms */
export const microseconds = (ms) => Math.round(Math.min(ms * 1000, LONGEST));

/** @param {Claim} claim */
const figures = ({ limit, weight }) => [limit ?? "", weight];

/** @param {Wait} wait */
function waiting({ timeoutMs, session, lease }) {
  const again = Math.round(lease / constants.ASKS);
  const timeout = timeoutMs === Infinity ? "" : microseconds(timeoutMs);
  return `block ${constants.DEFAULT_PRIORITY} ${again} ${again} 1.0 ${timeout} 0 ${session}`;
}

/**
 * Ask for a permit; without a wait the call does not stand in line.
 * @param {Claim} claim @param {string} holder @param {Wait | null} wait
 * @returns {Call}
 */
export function acquire(claim, holder, wait) {
  const how = wait ? [wait.ticket, waiting(wait), claim.packed] : ["", " 0 100000 300000000 1.0  0 ", ""];
  const words = [holder, ...how, "", processName(), ...figures(claim)];
  return { script: scripts.ACQUIRE, resources: [claim.resource], words };
}

/** @param {Claim} claim @param {string} name of a holder, or a ticket @returns {Call} */
export const release = (claim, name) => ({ script: scripts.RELEASE, resources: [claim.resource], words: [name] });

/** Release a permit of weight 1. @param {Claim} claim @param {string} holder @returns {ShortCall} */
export function shortRelease(claim, holder) {
  return { script: scripts.SHORT_RELEASE, resource: claim.resource, words: [holder] };
}

/** Renew permits that are unchanged in the store. @param {Renewable[]} permits @returns {Call} */
export function renewMany(permits) {
  const words = permits.flatMap(({ holder, token, since, claim }) => [holder, 1, `${token} ${since} ${claim.weight} `]);
  const parts = permits.flatMap(({ claim }) => [`${claim.resource}:holders`, `${claim.resource}:ledger`]);
  return { script: scripts.RENEW_MANY, resources: [], words: [permits.length, ...words], parts };
}

/** Renew permits on one resource, or restore those that the store lost. @param {Renewable[]} permits @returns {Call} */
export function renew(permits) {
  const words = permits.flatMap((each) => [each.holder, each.token, each.since, each.epoch, ...figures(each.claim)]);
  return { script: scripts.RENEW, resources: [permits[0].claim.resource], words: [permits.length, ...words] };
}

/** Ask for the grants of a session. @param {string} session @param {{ nonce: string, resource: string }[]} toForecast @returns {Call} */
export function ask(session, toForecast) {
  const resources = [...new Set(toForecast.map((wait) => wait.resource))];
  return { script: scripts.ASK, resources, words: [session, "", 0, 0, ...toForecast.map((wait) => wait.nonce)] };
}

/** @returns {Call} */
export const overdue = () => ({
  script: scripts.OVERDUE,
  resources: [],
  words: [constants.REAPED, PROCESS],
  parts: ["processes"],
});

/** @param {string[]} resources @returns {Call} */
export const reap = (resources) => ({ script: scripts.REAP, resources, words: [] });

/** @param {string} resource @param {number} waiters @returns {Call} */
export const snapshot = (resource, waiters) => ({
  script: scripts.SNAPSHOT,
  resources: [resource],
  words: [waiters, 0],
});

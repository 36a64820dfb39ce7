import { setMaxListeners } from "node:events";
import { Acquisition } from "./acquisition.js";
import { checkText, Claim } from "./claim.js";
import { PermitLost, SemaphoreError, StoreUnavailable } from "./errors.js";
import { Permit } from "./permit.js";
import { Store } from "./store.js";

/**
 * @typedef {object} Options
 * @property {string} url redis:// or rediss://, of a single server or any node of a Redis Cluster
 * @property {number | null} [limit] the smallest that was declared lately is in force; without one, that of the tasks
 * @property {string | null} [key] limits each key separately
 * @property {number} [weight] of each permit
 * @property {number} [timeoutMs] of each wait; without one it waits for ever
 * @property {number} [leaseMs] the workers' semaphore_lease
 * @property {number} [takeUpMs] the workers' semaphore_take_up, or else the lease
 * @property {string} [prefix] the workers' semaphore_prefix
 *
 * @typedef {{ timeoutMs?: number, signal?: AbortSignal }} Wait `timeoutMs: 0` asks once
 */

const SHORTEST_LEASE_MS = 1000;
const OPTIONS = ["url", "limit", "key", "weight", "timeoutMs", "leaseMs", "takeUpMs", "prefix"];

/**
 * Limits the total `weight` that runs at once, for each `key`, of Celery tasks and other code together.
 * @implements {AsyncDisposable}
 */
export class Semaphore {
  #claim;
  #isClosed = false;
  /** @type {Promise<void> | undefined} */
  #closing;
  #store;
  #timeoutMs;
  /** The acquires under way. @type {Map<Acquisition, Promise<Permit>>} */
  #waiting = new Map();

  /** @param {string} name @param {Options} options */
  constructor(name, options) {
    const unknown = Object.keys(options ?? {}).filter((each) => !OPTIONS.includes(each));
    if (unknown.length) throw new TypeError(`there is no option ${unknown.join(", ")}; there are ${OPTIONS.join(", ")}`);
    const { url, limit = null, key = null, weight = 1, timeoutMs = Infinity, leaseMs = 30_000 } = options ?? {};
    const { takeUpMs = leaseMs, prefix = "celery-semaphore" } = options ?? {};
    checkText("name", name);
    checkText("url", url);
    checkText("prefix", prefix);
    if (!/^[^{}]+$/.test(prefix)) throw new RangeError("prefix must have at least one character, and none of { and }");
    this.#timeoutMs = checkMs("timeoutMs", timeoutMs, 0);
    checkMs("leaseMs", leaseMs, SHORTEST_LEASE_MS);
    checkMs("takeUpMs", takeUpMs, 1);
    if (leaseMs === Infinity || takeUpMs === Infinity) throw new RangeError("leaseMs and takeUpMs must be finite");
    this.#claim = new Claim(name, key, limit, weight);
    this.#store = Store.open({ url, prefix, leaseMs, takeUpMs });
  }

  /**
   * Wait in line for a permit. Rejects with `SemaphoreTimeout`, or at once with the reason of an aborted `signal`.
   * @param {Wait} [wait] @returns {Promise<Permit>}
   */
  async acquire({ timeoutMs = this.#timeoutMs, signal } = {}) {
    checkMs("timeoutMs", timeoutMs, 0);
    this.#check();
    signal?.throwIfAborted();
    const acquisition = new Acquisition(this.#store, this.#claim, timeoutMs);
    const onAbort = () => acquisition.abort(signal?.reason);
    if (signal) setMaxListeners(0, signal); // one signal may end many acquires
    signal?.addEventListener("abort", onAbort);
    const acquired = acquisition.permit();
    this.#waiting.set(acquisition, acquired);
    try {
      return await acquired;
    } finally {
      signal?.removeEventListener("abort", onAbort);
      this.#waiting.delete(acquisition);
    }
  }

  /**
   * Run the body with a permit, and return what it returns.
   * @template T
   * @param {(permit: Permit) => Promise<T> | T} body
   * @param {Wait} [wait]
   */
  async withPermit(body, wait) {
    const permit = await this.acquire(wait);
    let result;
    try {
      result = await body(permit);
    } catch (error) {
      await permit.release().catch((failed) => process.emitWarning(failed)); // the caller needs the body's error
      throw error;
    }
    await permit.release();
    return result;
  }

  /** Give a permit back; twice does nothing. @param {Permit} permit */
  async release(permit) {
    checkPermit(permit);
    await permit.release();
  }

  /** Renew a permit now, before the next regular renewal; rejects with `PermitLost`. @param {Permit} permit */
  async extend(permit) {
    checkPermit(permit);
    this.#check();
    if (!this.#store.keeper.has(permit)) throw new PermitLost(`${permit.holder}: this process does not hold the permit`);
    const became = (await this.#store.renew([permit])).get(permit.holder);
    if (!became) throw new StoreUnavailable(`${permit.holder}: the store could not renew the permit now`);
    if (became !== "lost") return;
    this.#store.keeper.lose(permit);
    throw new PermitLost(`${permit.holder}: the lease ended, another may have the permit now`);
  }

  /** Return how much of the limit is free right now; 0 during a pause. */
  async available() {
    this.#check();
    const { limit, occupied, isPaused, kept } = await this.#store.snapshot(this.#claim);
    const inForce = limit ?? this.#claim.limit;
    if (inForce === null) throw new SemaphoreError(`no limit is known yet for semaphore "${this.#claim.semaphore}"`);
    return isPaused ? 0 : Math.max(0, inForce - occupied - kept);
  }

  /** Return the current holders of permits, tasks and other code, oldest first. */
  async holders() {
    this.#check();
    return (await this.#store.snapshot(this.#claim)).held;
  }

  /**
   * End what waits; the last semaphore of a place releases what is held, and ends the connection. A body that still
   * runs loses its permit, and its signal is aborted.
   */
  close() {
    return (this.#closing ??= this.#close());
  }

  async #close() {
    this.#isClosed = true;
    for (const acquisition of this.#waiting.keys()) acquisition.abort(new SemaphoreError("the semaphore was closed"));
    await Promise.allSettled(this.#waiting.values()); // what they leave is on its way
    await this.#store.close();
  }

  async [Symbol.asyncDispose]() {
    await this.close();
  }

  #check() {
    if (this.#isClosed) throw new SemaphoreError("the semaphore was closed");
  }
}

/** @param {string} option @param {unknown} value @param {number} least */
function checkMs(option, value, least) {
  if (typeof value !== "number") throw new TypeError(`${option} must be a number of milliseconds, not ${typeof value}`);
  if (!(value >= least)) throw new RangeError(`${option}=${value} must be ${least} or more milliseconds`);
  return value;
}

/** @param {unknown} permit */
function checkPermit(permit) {
  if (!(permit instanceof Permit)) throw new TypeError("give it the permit that acquire() returned");
}

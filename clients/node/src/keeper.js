import { StoreUnavailable } from "./errors.js";
import { constants } from "./scripts.js";

const LOST_AFTER = 0.9; // part of a lease without a renewal after which a permit counts as lost
const RETRY_MS = 1000; // between two attempts while the store fails

/**
 * @typedef {import("./permit.js").Permit} Permit
 * @typedef {{ permit: Permit, confirmed: number, leaseMs: number, isLost: boolean }} Kept
 */

/**
 * Renews all permits of this process, and tells the holders of those that are lost; see core/lease.py.
 *
 * A permit that could not be renewed for almost a lease, by the monotonic clock, counts as lost although the store may
 * still have it; it is still renewed, for its holder may be the only one.
 */
export class LeaseKeeper {
  #beaten = performance.now();
  #due = this.#beaten;
  #isBeating = false;
  /** @type {Map<string, Kept>} */
  #kept = new Map();
  #store;
  /** @type {NodeJS.Timeout | null} */
  #timer = null;

  /** @param {import("./store.js").Store} store */
  constructor(store) {
    this.#store = store;
  }

  /** Renew this permit from now on; `confirmed` is the monotonic time before it was acquired. @param {Permit} permit @param {number} confirmed */
  add(permit, confirmed) {
    const lasts = permit.lasts / 1000; // the store may have had a shorter lease then; or its clock stepped
    const leaseMs = lasts > 0 ? Math.min(lasts, this.#store.leaseMs) : this.#store.leaseMs;
    this.#kept.set(permit.holder, { permit, confirmed, leaseMs, isLost: false });
    this.#timer ??= this.#next();
  }

  /** Renew it no more; return whether it was renewed until now. @param {Permit} permit */
  take(permit) {
    return this.#kept.delete(permit.holder);
  }

  /** @param {Permit} permit */
  has(permit) {
    return this.#kept.has(permit.holder);
  }

  /** Tell the holder of a permit that the store has ended, and renew it no more. @param {Permit} permit */
  lose(permit) {
    const kept = this.#kept.get(permit.holder);
    this.#kept.delete(permit.holder);
    if (kept && !kept.isLost) permit.lose("its lease ended in the store, or it was removed there");
  }

  permits() {
    return [...this.#kept.values()].map(({ permit }) => permit);
  }

  close() {
    if (this.#timer) clearTimeout(this.#timer);
  }

  #next() {
    return setTimeout(() => this.#tick(), Math.min(RETRY_MS / 2, this.#shortestLease() / 12)).unref();
  }

  #shortestLease() {
    return Math.min(this.#store.leaseMs, ...[...this.#kept.values()].map(({ leaseMs }) => leaseMs));
  }

  #tick() {
    this.#timer = this.#next();
    const due = Math.min(this.#due, this.#beaten + this.#shortestLease() / constants.BEATS);
    // A process that was blocked for long asks first: the store may have kept its permits.
    if (!this.#isBeating && performance.now() >= due) void this.#beat();
    else this.#look();
  }

  #look() {
    for (const kept of this.#kept.values()) {
      const passed = performance.now() - kept.confirmed;
      if (kept.isLost || passed <= LOST_AFTER * kept.leaseMs) continue;
      kept.isLost = true;
      kept.permit.lose(`not renewed for ${(passed / 1000).toFixed(1)} s`);
    }
  }

  /** Renew all permits, then reap. */
  async #beat() {
    this.#isBeating = true;
    this.#beaten = performance.now();
    let isWell = false;
    try {
      isWell = await this.#renew();
      await this.#store.reap();
    } catch (error) {
      if (!(error instanceof StoreUnavailable)) process.emitWarning(/** @type {Error} */ (error));
      isWell = isWell && !(error instanceof StoreUnavailable);
    }
    // While the store fails, soon enough to fall into the grace of one that comes back without its data.
    const { leaseMs } = this.#store;
    this.#due = performance.now() + (isWell ? leaseMs / constants.BEATS : Math.min(RETRY_MS, leaseMs / 10));
    this.#isBeating = false;
    this.#look();
  }

  /** Renew all permits; return whether each had an answer. */
  async #renew() {
    const before = performance.now();
    const { leaseMs } = this.#store;
    const permits = this.permits();
    const renewals = await this.#store.renew(permits);
    for (const [holder, became] of renewals) {
      const kept = this.#kept.get(holder);
      if (!kept) continue; // released meanwhile
      if (became === "lost") this.lose(kept.permit);
      else Object.assign(kept, { confirmed: before, leaseMs: Math.min(leaseMs, this.#store.leaseMs), isLost: false });
    }
    return renewals.size === permits.length;
  }
}

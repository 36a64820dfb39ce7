import { Asker } from "./asker.js";
import * as calls from "./calls.js";
import { Durations } from "./durations.js";
import { SemaphoreError, StoreUnavailable } from "./errors.js";
import { LeaseKeeper } from "./keeper.js";
import { Link } from "./link.js";
import { Releaser } from "./releaser.js";
import { Runner } from "./runner.js";
import { constants } from "./scripts.js";
import { ShortReleases } from "./short_releases.js";
import { refusal, reply, snapshot } from "./answers.js";

/**
 * @typedef {import("./claim.js").Claim} Claim
 * @typedef {import("./permit.js").Permit} Permit
 * @typedef {{ url: string, prefix: string, leaseMs: number, takeUpMs: number }} Place
 */

const FLUSH_MS = 1000;

/** @type {Map<string, Store>} */
const opened = new Map();

/** The store of permits, and what this process does there; shared by all semaphores of one place. */
export class Store {
  #count = 0;
  #link;
  #runner;
  #shortReleases;

  /** @param {Place} place */
  constructor({ url, prefix, leaseMs, takeUpMs }) {
    this.durations = new Durations([calls.microseconds(leaseMs), calls.microseconds(takeUpMs)]);
    this.#link = new Link(url);
    this.#runner = new Runner(this.#link, prefix, this.durations);
    this.#shortReleases = new ShortReleases(this.#runner);
    this.asker = new Asker(this);
    this.keeper = new LeaseKeeper(this);
    this.releaser = new Releaser(this);
  }

  /** Return the store of this place; each that opens it closes it. @param {Place} place */
  static open({ url, prefix, leaseMs, takeUpMs }) {
    const name = JSON.stringify([url, prefix, leaseMs, takeUpMs]);
    const store = opened.get(name) ?? new Store({ url, prefix, leaseMs, takeUpMs });
    opened.set(name, store);
    store.#count++;
    return store;
  }

  /** Release what is held, and end the connection, unless another semaphore uses it. */
  async close() {
    if (--this.#count > 0) return;
    for (const [name, store] of opened) if (store === this) opened.delete(name);
    const held = this.keeper.permits();
    // Before others may have them: bodies that still run go on without a permit.
    for (const permit of held) permit.lose("the semaphore was closed");
    await Promise.allSettled(held.map((permit) => this.giveBack(permit)));
    await this.releaser.flush(FLUSH_MS);
    this.keeper.close();
    this.#link.close();
  }

  get epoch() {
    return this.#runner.epoch;
  }

  /** The lease in force, as far as this process knows. */
  get leaseMs() {
    return this.durations.leaseMs;
  }

  /**
   * Ask for a permit; return its figures, or the refusal.
   * @param {Claim} claim @param {string} holder @param {{ ticket: string, timeoutMs: number } | null} wait
   */
  async acquire(claim, holder, wait) {
    const how = wait && { ...wait, session: this.asker.session, lease: this.durations.inForce[0] };
    const answer = await this.#runner.run(calls.acquire(claim, holder, how));
    if (answer[1] === "other claims") throw new SemaphoreError(`${holder}: its ticket is of a wait with other claims`);
    if (typeof answer[1] !== "number") return { refusal: refusal(answer) };
    const [epoch, token, since, ends] = answer;
    return { granted: { holder, token, since, ends, epoch } };
  }

  /** Release a holder or a ticket, and hand on. @param {string} name @param {Claim} claim */
  async release(name, claim) {
    await this.#handOn([claim.resource], await this.#shortReleases.release(claim, name));
  }

  /** Release a permit, if this process holds it. @param {Permit} permit */
  async giveBack(permit) {
    if (this.keeper.take(permit)) await this.releaser.release(permit.holder, permit.claim);
  }

  /**
   * Renew permits; there is no answer for one that the server always refuses.
   * @param {Permit[]} permits @returns {Promise<Map<string, string>>}
   */
  async renew(permits) {
    const renewals = new Map();
    const note = async (/** @type {Permit[]} */ part, /** @type {calls.Call} */ call) => {
      const became = call.script.name === "renew" ? (/** @type {string} */ text) => text.split(" ") : ones;
      const answer = became((await this.#runner.run(call))[1]);
      part.forEach(({ holder }, n) => answer[n] && renewals.set(holder, answer[n]));
    };
    for (const part of parts(permits)) await passing(note(part, calls.renewMany(part)));
    const others = permits.filter(({ holder }) => !renewals.has(holder));
    for (const alike of byResource(others)) {
      for (const part of parts(alike)) {
        if ((await passing(note(part, calls.renew(part)))) || part.length === 1) continue;
        // Perhaps only one permit's record is broken: it must cost no other permit its lease.
        for (const one of part) await passing(note([one], calls.renew([one])));
      }
    }
    return renewals;
  }

  /** End what is overdue, and hand on what is free: without a worker, no other process may do it. */
  async reap() {
    const [, names] = await this.#runner.run(calls.overdue());
    await Promise.all(names.map((/** @type {string} */ name) => passing(this.#reaped(name))));
  }

  /** @param {string} name */
  async #reaped(name) {
    await this.#handOn([name], await this.#runner.run(calls.reap([name])));
  }

  /** Continue a hand-on until it is done, over as many calls as it needs. @param {string[]} resources @param {any[]} answer */
  async #handOn(resources, answer) {
    for (let n = 0; n < constants.ROUNDS && answer.length > 1; n++) {
      const [, again, needed, , granted] = answer;
      this.asker.tell(granted);
      if (!again && needed.length === 0) return;
      resources = [...new Set([...resources, ...needed])];
      answer = await this.#runner.run(calls.reap(resources));
    }
  }

  /** @param {string} session @param {import("./forecast.js").Waiting[]} toForecast */
  async ask(session, toForecast) {
    return reply(await this.#runner.run(calls.ask(session, toForecast)));
  }

  /** @param {Claim} claim */
  async snapshot(claim) {
    return snapshot(await this.#runner.run(calls.snapshot(claim.resource, 1)));
  }
}

/** @param {Permit[]} permits */
function parts(permits) {
  const found = [];
  for (let n = 0; n < permits.length; n += constants.MANY) found.push(permits.slice(n, n + constants.MANY));
  return found;
}

/** @param {Permit[]} permits @returns {Permit[][]} */
function byResource(permits) {
  /** @type {Map<string, Permit[]>} */
  const found = new Map();
  for (const permit of permits) {
    const { resource } = permit.claim;
    found.set(resource, [...(found.get(resource) ?? []), permit]);
  }
  return [...found.values()];
}

/** @param {string} text */
const ones = (text) => [...text].map((each) => (each === "1" ? "ok" : null));

/** Return whether the store took the call; it may refuse one for good. @param {Promise<void>} call */
async function passing(call) {
  try {
    await call;
    return true;
  } catch (error) {
    if (!(error instanceof SemaphoreError) || error instanceof StoreUnavailable) throw error;
    process.emitWarning(error);
    return false;
  }
}

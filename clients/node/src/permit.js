import { PermitLost } from "./errors.js";

/**
 * The right of one holder to run until its lease ends; it is renewed until it is released.
 * @implements {AsyncDisposable}
 */
export class Permit {
  #giveBack;
  /** @type {AbortController | null} */
  #controller = null;
  /** @type {PermitLost | null} */
  #lost = null;

  /**
   * @param {{ holder: string, token: number, since: number, ends: number, epoch: number }} answer in microseconds
   * @param {import("./claim.js").Claim} claim
   * @param {(permit: Permit) => Promise<void>} giveBack
   */
  constructor({ holder, token, since, ends, epoch }, claim, giveBack) {
    this.holder = holder;
    this.token = token; // grows with every admission of the semaphore, so that a server can refuse older ones
    this.since = since;
    this.lasts = ends - since;
    this.epoch = epoch;
    this.claim = claim;
    this.#giveBack = giveBack;
  }

  /** Aborted with `PermitLost` once its lease ended although its holder runs. @returns {AbortSignal} */
  get signal() {
    this.#controller ??= new AbortController();
    if (this.#lost) this.#controller.abort(this.#lost);
    return this.#controller.signal;
  }

  /** Give it back; twice does nothing. While the store is away, this is repeated in the background for one lease. */
  release() {
    return this.#giveBack(this);
  }

  async [Symbol.asyncDispose]() {
    await this.release();
  }

  /** Tell the holder. @param {string} reason @internal */
  lose(reason) {
    this.#lost = new PermitLost(`${this.holder} lost its permit: ${reason}`);
    this.#controller?.abort(this.#lost);
  }
}

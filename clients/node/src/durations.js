/** Holds the lease and the take-up that each call brings, in microseconds: the client's own until the store tells others. */
export class Durations {
  #own;

  /** @param {[number, number]} own */
  constructor(own) {
    this.#own = own;
    this.inForce = own; // replaced as a whole
  }

  /** The lease in force, in milliseconds. */
  get leaseMs() {
    return this.inForce[0] / 1000;
  }

  /** Bring what the store keeps from now on; warn if the lease is another one than given. @param {[number, number]} inForce */
  adopt(inForce) {
    const isKnown = inForce[0] === this.inForce[0];
    this.inForce = inForce;
    if (isKnown || inForce[0] === this.#own[0]) return;
    const [kept, own] = [inForce[0] / 1000, this.#own[0] / 1000];
    process.emitWarning(
      `leaseMs is ${own} here, but the store keeps ${kept}: that is in force. Set leaseMs: ${kept}; or change what the` +
        ` first caller or an operator has set, for all: celery -A <your app> semaphore lease ${own / 1000}.`,
      "SemaphoreWarning",
    );
  }
}

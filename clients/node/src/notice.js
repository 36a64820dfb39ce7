/** Wakes an acquire that waits. */
export class Notice {
  #isSet = false;
  /** @type {() => void} */
  #wake = () => {};

  set() {
    this.#isSet = true;
    this.#wake();
  }

  /** Wait for so long at most, or until it is set; then it is no more. @param {number} ms */
  async wait(ms) {
    if (!this.#isSet) {
      await new Promise((resolve) => {
        // Not unref'd: while the store is away, nothing else keeps a process alive whose only work is to wait.
        const timer = setTimeout(resolve, Math.min(ms, 2 ** 31 - 1));
        this.#wake = () => {
          clearTimeout(timer);
          resolve(undefined);
        };
      });
    }
    this.#isSet = false;
  }
}

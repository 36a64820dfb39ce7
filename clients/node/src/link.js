import { setTimeout as sleep } from "node:timers/promises";
import { closed, Connection, isReply, TIMEOUT_MS } from "./connection.js";
import { isTransient, said, StoreUnavailable, translated } from "./errors.js";
import { FORMAT } from "./scripts.js";
import { optionsOf } from "./url.js";

/** @typedef {import("./connection.js").Address} Address */

const MOST_REPEATS = 4; // of one call, where another node may take over
const PAUSE_MS = 50; // before a node is asked again that knows no better
const MOVED = /^MOVED \d+ (.*):(\d+)$/;

/** One connection to the server that keeps the permits. The calls of all semaphores share it, and are pipelined. */
export class Link {
  /** @type {Promise<Connection> | null} */
  #connection = null;
  #hasWorked = false;
  #isClosed = false;
  #isCluster = false;
  #isDown = false;
  /** First the one to connect to. @type {Address[]} */
  #nodes;
  #options;

  /** @param {string} url */
  constructor(url) {
    this.#options = optionsOf(url);
    const { host, port } = this.#options.socket;
    this.#nodes = [{ host, port }];
  }

  /**
   * Run the exchange; if the connection fails, repeat it over a new one: all calls are idempotent.
   * @template T
   * @param {(connection: Connection) => Promise<T>} exchange
   * @returns {Promise<T>}
   */
  async ask(exchange) {
    let until = Infinity;
    for (let n = 0; ; n++) {
      /** @type {Promise<Connection> | null} */
      let over = null;
      try {
        if (this.#isClosed) throw closed();
        over = this.#connected();
        const answer = await exchange(await over);
        this.#hasWorked = true;
        this.#isDown = false;
        return answer;
      } catch (error) {
        if (this.#isClosed) throw closed();
        if (!isTransient(error, isReply(error))) {
          this.#forget(over);
          throw this.#failed(error);
        }
        await this.#follow(error, over);
        until = Math.min(until, performance.now() + TIMEOUT_MS);
        if (n >= (this.#isCluster ? MOST_REPEATS : 1) || performance.now() >= until) throw this.#failed(error);
      }
    }
  }

  #connected() {
    return (this.#connection ??= this.#connect());
  }

  async #connect() {
    const { socket, ...others } = this.#options;
    const connection = await Connection.open({ ...others, socket: { ...socket, ...this.#nodes[0] } });
    if (connection.isNode) {
      this.#isCluster = true;
      this.#remember(await connection.nodes());
    }
    if (this.#isClosed) connection.destroy();
    return connection;
  }

  /** Leave a connection that failed, and go to the node that serves the keys now. @param {unknown} error @param {Promise<Connection> | null} over */
  async #follow(error, over) {
    if (over === null || over !== this.#connection) return; // another call has left it
    this.#connection = null;
    over.then(
      (connection) => connection.destroy(),
      () => {},
    );
    const moved = isReply(error) && MOVED.exec(said(error));
    if (moved) {
      this.#isCluster = true;
      // A node that does not know its own address announces nothing, or a question mark.
      const host = ["", "?"].includes(moved[1]) ? this.#nodes[0].host : moved[1];
      this.#nodes.unshift({ host, port: Number(moved[2]) });
      this.#remember([]);
    } else if (this.#isCluster) {
      if (!isReply(error)) this.#nodes.push(...this.#nodes.splice(0, 1)); // the next one knows, or will
      await sleep(PAUSE_MS);
    }
  }

  /** @param {Address[]} nodes */
  #remember(nodes) {
    const each = [...this.#nodes, ...nodes].map((node) => /** @type {const} */ ([`${node.host} ${node.port}`, node]));
    this.#nodes = [...new Map(each).values()];
  }

  /** Forget a connection that could not be made, perhaps for a wrong password, which may be mended. @param {Promise<Connection> | null} over */
  #forget(over) {
    over?.catch(() => {
      if (this.#connection === over) this.#connection = null;
    });
  }

  /** Translate an error; warn once in an outage. @param {unknown} error */
  #failed(error) {
    const known = { isReply: isReply(error), hasWorked: this.#hasWorked, format: String(FORMAT) };
    const failed = translated(error, known);
    if (!this.#isDown && failed instanceof StoreUnavailable) {
      process.emitWarning(`trying again: ${failed.message}`, "SemaphoreWarning");
      this.#isDown = true;
    }
    return failed;
  }

  close() {
    this.#isClosed = true;
    this.#connection?.then(
      (connection) => connection.destroy(),
      () => {},
    );
  }
}

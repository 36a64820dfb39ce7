import { createClient, ErrorReply } from "@redis/client";
import { StoreUnavailable } from "./errors.js";

export const TIMEOUT_MS = 2000; // of one answer, and of a connect
const AGAIN_MS = 100; // a process that was blocked reads what has come meanwhile

/**
 * @typedef {{ host: string, port: number }} Address
 * @typedef {import("@redis/client").RedisClientOptions} Options
 */

/** @param {unknown} error */
export const isReply = (error) => error instanceof ErrorReply;

/** One connection to one server, which is never made again: each call carries the run id of the server behind it. */
export class Connection {
  #client;
  #progress = 0; // when the last answer came, or the first command was sent without one under way
  #underWay = 0;
  /** @type {NodeJS.Timeout | null} */
  #watch = null;
  /** The scripts whose source was sent. @type {Set<import("./scripts.js").Script>} */
  brought = new Set();
  runId = "";
  isNode = false; // of a Redis Cluster

  /** @param {Options} options */
  constructor(options) {
    const socket = { connectTimeout: TIMEOUT_MS, ...options.socket, reconnectStrategy: /** @type {const} */ (false) };
    const settings = { RESP: /** @type {const} */ (2), disableOfflineQueue: true, disableClientInfo: true };
    const commandOptions = { timeout: 0 }; // one watch for all; the driver's own makes an AbortSignal for each command
    this.#client = createClient(/** @type {any} */ ({ ...options, ...settings, commandOptions, socket }));
    this.#client.on("error", () => {}); // each call under way gets it
  }

  /** Connect, and read the run id of the server. @param {Options} options */
  static async open(options) {
    const connection = new Connection(options);
    const timer = setTimeout(() => connection.destroy(), TIMEOUT_MS);
    try {
      await connection.#client.connect();
      await connection.#meet();
      return connection;
    } catch (error) {
      connection.destroy();
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }

  async #meet() {
    const info = await this.send(["INFO", "server"]).catch((error) => {
      if (isReply(error) && /^NOPERM/.test(error.message)) return ""; // then only a missing record shows a restart
      throw error;
    });
    const mode = /^(?:redis|server)_mode:(\w+)/m.exec(info)?.[1];
    if (mode === "sentinel") throw new ErrorReply("ERR user_script: the url leads to a sentinel, which keeps no permits");
    this.runId = /^run_id:(\w+)/m.exec(info)?.[1] ?? "";
    this.isNode = mode === "cluster";
  }

  /** @param {string[]} words @returns {Promise<any>} */
  async send(words) {
    if (this.#underWay++ === 0) this.#progress = performance.now();
    this.#watch ??= this.#lookAfter(TIMEOUT_MS);
    try {
      return await this.#client.sendCommand(words);
    } finally {
      this.#underWay--;
      this.#progress = performance.now();
    }
  }

  /** @param {number} ms @param {boolean} [isLast] */
  #lookAfter(ms, isLast = false) {
    return setTimeout(() => this.#look(isLast), ms).unref();
  }

  /** Give up a server that answers nothing, but not at once: perhaps this process was blocked, and not the server. @param {boolean} isLast */
  #look(isLast) {
    this.#watch = null;
    if (!this.#underWay) return;
    const left = this.#progress + TIMEOUT_MS - performance.now();
    if (left > 0) this.#watch = this.#lookAfter(left);
    else if (!isLast) this.#watch = this.#lookAfter(AGAIN_MS, true);
    else this.destroy();
  }

  /** End it; calls under way get an error. */
  destroy() {
    if (this.#watch) clearTimeout(this.#watch);
    if (this.#client.isOpen) this.#client.destroy();
  }

  /** Return the addresses of the nodes of a Redis Cluster, as far as this one tells. @returns {Promise<Address[]>} */
  async nodes() {
    const ranges = await this.send(["CLUSTER", "SLOTS"]).catch(() => []);
    const found = ranges.flatMap((/** @type {any[]} */ [, , ...nodes]) => nodes);
    return found
      .filter((/** @type {any[]} */ [host]) => host && host !== "?")
      .map((/** @type {any[]} */ [host, port]) => ({ host, port: Number(port) }));
  }
}

/** @returns {StoreUnavailable} */
export const closed = () => new StoreUnavailable("the semaphore was closed");

import { said } from "./errors.js";
import { KEYS } from "./scripts.js";

/**
 * @typedef {import("./calls.js").Call} Call
 * @typedef {import("./calls.js").ShortCall} ShortCall
 * @typedef {import("./connection.js").Connection} Connection
 * @typedef {any[]} Answer the first figure is the epoch
 */

const REPEATS = 5; // of a call, each after another change of the lease while the call was on its way
const MOST_CACHED = 10_000;
const OTHER_LEASE = /^OTHERLEASE (\d+) (\d+)$/;

/** Runs scripts over a link, with the words that all calls have, and notes the store's epoch from the answers. */
export class Runner {
  #common;
  #durations;
  /** By resource: most calls share them with earlier ones. @type {Map<string, string[]>} */
  #keys = new Map();
  #link;
  #shortCommon;
  /** As `keys`, of short calls. @type {Map<string, string[]>} */
  #shortKeys = new Map();
  #start;

  /**
   * @param {import("./link.js").Link} link
   * @param {string} prefix
   * @param {import("./durations.js").Durations} durations
   */
  constructor(link, prefix, durations) {
    /** @type {number | null} */
    this.epoch = null;
    this.#link = link;
    this.#durations = durations;
    this.#start = `{${prefix}}:`;
    this.#common = KEYS.common.map((name) => this.#start + name);
    this.#shortCommon = KEYS.short_common.map((name) => this.#start + name);
  }

  /** @param {Call} call @returns {Promise<Answer>} */
  async run(call) {
    const answer = await this.#link.ask((connection) => this.#long(connection, call));
    this.epoch = answer[0];
    return answer;
  }

  /**
   * Make a short call; if it answers 0, so that nothing has changed, make the long one over its connection. Return the
   * answer, and whether the short call sufficed.
   * @param {ShortCall} short @param {Call} long
   */
  async runShort(short, long) {
    let sufficed = false;
    const answer = await this.#link.ask(async (connection) => {
      const words = (/** @type {boolean} */ whole) => this.shortWords(short, connection.runId, whole);
      const said = await this.#exchange(connection, short.script, words);
      sufficed = said[0] !== 0;
      return sufficed ? said : this.#long(connection, long);
    });
    this.epoch = answer[0];
    return { answer, sufficed };
  }

  /** @param {Connection} connection @param {Call} call */
  #long(connection, call) {
    return this.#exchange(connection, call.script, (whole) => this.words(call, connection.runId, whole));
  }

  /**
   * @param {Connection} connection @param {import("./scripts.js").Script} script
   * @param {(whole: boolean) => string[]} words
   * @returns {Promise<Answer>}
   */
  async #exchange(connection, script, words) {
    for (let n = 0, whole = false; ; n++) {
      try {
        return read(await connection.send(words(whole)));
      } catch (error) {
        const lease = OTHER_LEASE.exec(said(error));
        if (n >= REPEATS || !(lease || said(error).startsWith("NOSCRIPT"))) throw error;
        if (lease) this.#durations.adopt([Number(lease[1]), Number(lease[2])]);
        // Of many calls that were on their way, one brings the source; the server knows it when the next ones come.
        else whole = n > 0 || !connection.brought.has(script);
        if (whole) connection.brought.add(script);
      }
    }
  }

  /**
   * Return the words of a call; `whole` brings the source, for a server that does not know it yet.
   * @param {Call} call @param {string} runId @param {boolean} whole
   */
  words({ script, resources, words, parts = [] }, runId, whole = false) {
    const declared = resources.map((resource) => this.#keysOf(resource));
    const keys = this.#common.concat(...declared, parts.map((part) => this.#start + part));
    const command = whole ? ["EVAL", script.source] : ["EVALSHA", script.sha1];
    const fixed = [...this.#durations.inForce, "", runId, this.epoch ?? "", resources.length, ...resources, ...words];
    return command.concat(String(keys.length), keys, fixed.map(String));
  }

  /** As `words`. @param {ShortCall} short @param {string} runId @param {boolean} whole */
  shortWords({ script, resource, words }, runId, whole = false) {
    const keys = this.#shortCommon.concat(this.#keysOf(resource, this.#shortKeys, KEYS.short_resource));
    const known = [this.epoch ?? "", ...this.#durations.inForce, runId].join(" ");
    const command = whole ? ["EVAL", script.source] : ["EVALSHA", script.sha1];
    return command.concat(String(keys.length), keys, known, words.map(String));
  }

  /** @param {string} resource */
  #keysOf(resource, known = this.#keys, parts = KEYS.resource) {
    let keys = known.get(resource);
    if (!keys) {
      keys = parts.map((part) => `${this.#start}${resource}:${part}`);
      if (known.size >= MOST_CACHED) known.clear();
      known.set(resource, keys);
    }
    return keys;
  }
}

/** @param {unknown} answer @returns {Answer} */
const read = (answer) => (Array.isArray(answer) ? answer : String(answer).split(" ").map(asNumber));

/** @param {string} word */
const asNumber = (word) => (/^\d{1,16}$/.test(word) ? Number(word) : word);

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";

/**
 * @typedef {{ parts: string[], sha1: string }} Parts
 * @typedef {{
 *   format: number,
 *   constants: Record<string, number>,
 *   keys: { common: string[], resource: string[], short_common: string[], short_resource: string[] },
 *   parts: Record<string, string>,
 *   scripts: Record<string, Parts>,
 * }} Protocol
 */

/** @type {Protocol} */
const protocol = JSON.parse(readFileSync(new URL("../scripts.json", import.meta.url), "utf8"));

export const { format: FORMAT, constants, keys: KEYS } = protocol;

/** One operation of the store; the server knows it by its digest. */
export class Script {
  /** @param {string} name */
  constructor(name) {
    const { parts, sha1 } = protocol.scripts[name];
    this.name = name;
    this.source = parts.map((part) => protocol.parts[part]).join("\n");
    this.sha1 = createHash("sha1").update(this.source).digest("hex");
    if (this.sha1 !== sha1) throw new Error(`scripts.json of celery-semaphore is broken: ${name}`);
  }
}

export const ACQUIRE = new Script("acquire");
export const ASK = new Script("ask");
export const OVERDUE = new Script("overdue");
export const REAP = new Script("reap");
export const RELEASE = new Script("release");
export const RENEW = new Script("renew");
export const RENEW_MANY = new Script("renew_many");
export const SHORT_RELEASE = new Script("short_release");
export const SNAPSHOT = new Script("snapshot");

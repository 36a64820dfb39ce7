import { readFileSync } from "node:fs";
import { said } from "./errors.js";

const SCHEMES = { "redis:": false, "valkey:": false, "rediss:": true, "valkeys:": true };
const TLS = { ssl_ca_certs: "ca", ssl_certfile: "cert", ssl_keyfile: "key" }; // as in semaphore_url

/**
 * Return the driver's options for a URL.
 * @param {string} url
 * @returns {{ username?: string, password?: string, database: number, socket: { host: string, port: number, tls: any } }}
 */
export function optionsOf(url) {
  if (!URL.canParse(url)) throw new TypeError("url cannot be read: it begins with redis:// or rediss://");
  const { hostname, password, pathname, port, protocol, searchParams, username } = new URL(url);
  if (!Object.hasOwn(SCHEMES, protocol)) {
    throw new TypeError(`url begins with ${protocol}//, but only redis:// and rediss:// are possible`);
  }
  const tls = SCHEMES[/** @type {keyof typeof SCHEMES} */ (protocol)];
  if (!/^\/?\d*$/.test(pathname)) throw new TypeError("the database, the part of url after the last /, is not a number");
  const files = Object.fromEntries([...searchParams].map(([name, path]) => [tlsOption(name, tls), contents(name, path)]));
  const host = hostname.replace(/^\[(.*)\]$/, "$1") || "localhost";
  return {
    ...(username && { username: decoded("user", username) }),
    ...(password && { password: decoded("password", password) }),
    database: Number(pathname.slice(1)),
    socket: { host, port: Number(port || 6379), tls, ...files },
  };
}

/** @param {string} part @param {string} text */
function decoded(part, text) {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new TypeError(`the ${part} in url has a % that begins no character: write %25`);
  }
}

/** @param {string} name @param {string} path */
function contents(name, path) {
  try {
    return readFileSync(path);
  } catch (error) {
    throw new TypeError(`url has ${name}=${path}, which cannot be read: ${said(error)}`, { cause: error });
  }
}

/** @param {string} name @param {boolean} tls */
function tlsOption(name, tls) {
  if (tls && Object.hasOwn(TLS, name)) return TLS[/** @type {keyof typeof TLS} */ (name)];
  throw new TypeError(`url has ${name}=, but only rediss:// may have ${Object.keys(TLS).join(", ")}`);
}

// What the counting server is told: tests/support/counter.
import { connect } from "node:net";
import { createInterface } from "node:readline";

/** @type {((answer: any) => void)[]} */
const asked = [];
/** @type {import("node:net").Socket | null} */
let socket = null;
let names = 0;

function opened() {
  const [host, port] = (process.env.COUNTER_ADDR ?? "").split(":");
  const made = connect({ host, port: Number(port), noDelay: true }).unref();
  createInterface({ input: made }).on("line", (line) => asked.shift()?.(JSON.parse(line)));
  return made;
}

/** @param {any[]} request @returns {Promise<any>} */
function ask(...request) {
  socket ??= opened();
  socket.write(`${JSON.stringify(request)}\n`);
  return new Promise((resolve) => asked.push(resolve));
}

/** Be counted while the body runs. @param {string} resource @param {string} task @param {() => Promise<unknown>} body */
export async function inside(resource, task, body) {
  const name = `${process.pid}-${names++}`;
  await ask("enter", resource, name, task, process.pid);
  try {
    await body();
  } finally {
    await ask("leave", name, "completed");
  }
}

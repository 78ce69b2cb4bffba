// A worker of the HTTP service in plain JavaScript: Node 18 or later, no packages. SIGTERM ends it after its task.
//   HOLDFAST=http://127.0.0.1:8700 node examples/http_worker.mjs
import { setTimeout as sleep } from "node:timers/promises";

const SERVICE = process.env.HOLDFAST ?? "http://127.0.0.1:8700";
const HEADERS = { "Content-Type": "application/json" };
if (process.env.HOLDFAST_TOKEN) HEADERS.Authorization = `Bearer ${process.env.HOLDFAST_TOKEN}`;
const LEASE_SECONDS = Number(process.env.LEASE_SECONDS ?? 30);
const WAIT_SECONDS = 20; // for which a claim waits for a task

const handlers = { // by command; a handler that throws fails its attempt, and the task runs again later
  "text.count": async ({ text }) => ({ words: text.split(/\s+/).filter(Boolean).length }),
  "sleep": async ({ seconds }, signal) => sleep(seconds * 1000, { slept: seconds }, { signal }),
};

// Sends a call until it is answered: a repeated call gets the first answer, and the lease of a lost claim expires.
async function call(path, body, signal) {
  for (;;) {
    let pause = 1;
    try {
      const request = { method: "POST", headers: HEADERS, body: JSON.stringify(body), signal };
      const answer = await fetch(`${SERVICE}/v1/tasks/${path}`, request);
      const text = await answer.text();
      if (![429, 503].includes(answer.status)) return { code: answer.status, body: text && JSON.parse(text) };
      pause = Number(answer.headers.get("Retry-After"));
    } catch {
      signal?.throwIfAborted();
    }
    await sleep(1000 * pause, null, { signal });
  }
}

async function work({ task, leaseToken, leaseSeconds }) {
  const running = new AbortController(); // tells the handler to stop: the task was cancelled, or the lease is lost
  const settle = (verb, body) => call(`${task.id}/${verb}`, { leaseToken, ...body });
  const heartbeats = setInterval(async () => {
    const answer = await settle("heartbeat", { leaseSeconds });
    if (answer.code !== 200 || answer.body.cancelRequested) running.abort();
  }, 1000 * leaseSeconds / 3);
  const ended = await handlers[task.command](task.payload, running.signal)
    .then((result) => settle("result", { status: "COMPLETED", result }))
    .catch((error) => running.signal.aborted ? settle("abandon") : settle("nack", { reason: String(error) }))
    .finally(() => clearInterval(heartbeats));
  console.log(task.id, ended.code === 200 ? ended.body.status : ended.body.detail);
}

const stopping = new AbortController();
process.on("SIGTERM", () => stopping.abort());
const wanted = { commands: Object.keys(handlers), leaseSeconds: LEASE_SECONDS, waitSeconds: WAIT_SECONDS };
while (!stopping.signal.aborted) {
  const claim = await call("claim", wanted, stopping.signal).catch(() => null); // null: the worker stops
  if (claim?.code === 200) await work(claim.body);
  else if (claim?.code >= 400) throw new Error(claim.body.detail);
}

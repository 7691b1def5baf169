// BullMQ: `Worker` with so many jobs at once. Finished jobs are removed.
//
// node bullmq_worker.cjs WHAT URL TASKS AT_ONCE PLACE
const { createRequire } = require("node:module");
const [what, url, tasks, atOnce, place] = process.argv.slice(2);
const { Queue, Worker } = createRequire(place + "/")("bullmq");
const TASKS = Number(tasks), BULK = 100, LEFT_OUT = Math.max(1, Math.floor(TASKS / 10)), SETTLE_MS = 500;
const connection = { host: "127.0.0.1", port: Number(new URL(url).port), maxRetriesPerRequest: null };
const bodies = Array.from({ length: TASKS }, (_, n) =>
  `https://api.example.com/v1/items/${String(n).padStart(12, "0")}?fields=all&page=1`.padEnd(100, "x"));
const options = { removeOnComplete: true, removeOnFail: true };
const now = () => Number(process.hrtime.bigint()) / 1e9;
const tell = (rate) => console.log(JSON.stringify({ rate }));

async function push() {
  const queue = new Queue("peer", { connection });
  await queue.waitUntilReady();
  const began = now();
  if (what === "push")
    for (const body of bodies) await queue.add("job", body, options);
  else
    for (let first = 0; first < TASKS; first += BULK)
      await queue.addBulk(
        bodies.slice(first, first + BULK).map((data) => ({ name: "job", data, opts: options })));
  tell(TASKS / (now() - began));
  await queue.close();
}

function consume() {
  let began = 0, count = 0;
  return new Promise((resolve) => {
    new Worker("peer", async () => {
      if (++count === LEFT_OUT) began = now();
      if (count === TASKS) {
        tell((TASKS - LEFT_OUT) / (now() - began));
        setTimeout(resolve, SETTLE_MS);
      }
    }, { connection, concurrency: Number(atOnce) });
  });
}
(what === "consume" ? consume() : push())
  .then(() => process.exit(0), (error) => { console.error(error); process.exit(1); });

// BullMQ: `Worker` with 100 jobs at once, which is where it is fastest. Finished jobs are removed.
const { createRequire } = require("node:module");
const [url, tasks, bulk, place, concurrency] = process.argv.slice(2);
const load = createRequire(place + "/");
const { Queue, Worker } = load("bullmq");
const TASKS = Number(tasks), BULK = Number(bulk), LEFT_OUT = 200;
const connection = { path: url.replace("unix://", ""), maxRetriesPerRequest: null };
const payload = (n) =>
  `https://api.example.com/v1/items/${String(n).padStart(12, "0")}?fields=all&page=1`.padEnd(100, "x");
const options = { removeOnComplete: true, removeOnFail: true };
const now = () => Number(process.hrtime.bigint()) / 1e9;

async function main() {
  const queue = new Queue("peer", { connection });
  const Redis = load("ioredis");
  const client = new Redis(connection);
  const used = async () => Number((await client.info("memory")).match(/used_memory:(\d+)/)[1]);
  const before = await used();
  let began = now();
  for (let n = 0; n < TASKS; n++) await queue.add("job", payload(n), options);
  const push = TASKS / (now() - began);
  const bytes = ((await used()) - before) / TASKS;
  began = now();
  for (let first = 0; first < TASKS; first += BULK) {
    const jobs = [];
    for (let n = first; n < first + BULK; n++) jobs.push({ name: "job", data: payload(TASKS + n), opts: options });
    await queue.addBulk(jobs);
  }
  const push_many = TASKS / (now() - began);
  let handled = 0, finished = 0;
  const consume = await new Promise((resolve) => {
    const worker = new Worker("peer", async () => { if (++handled === LEFT_OUT) began = now(); },
      { connection, concurrency: Number(concurrency) });
    worker.on("completed", () => {
      if (++finished === 2 * TASKS) {
        const rate = (2 * TASKS - LEFT_OUT) / (now() - began);
        worker.close().then(() => resolve(rate));
      }
    });
  });
  await queue.close();
  client.disconnect();
  const version = load("bullmq/package.json").version;
  console.log(JSON.stringify({ version, push, push_many, consume, bytes }));
}
main().then(() => process.exit(0), (error) => { console.error(error); process.exit(1); });

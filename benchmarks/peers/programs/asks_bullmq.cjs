// BullMQ: its limiter, which all workers of the queue share; `rateLimit` after a 429.
//
// node asks_bullmq.cjs REDIS_URL HOST_URL REQUESTS RATE WHAT FOLDER PLACE
const http = require("node:http");
const { createRequire } = require("node:module");
const [redis, host, requests, rate, what, , place] = process.argv.slice(2);
const { Queue, Worker } = createRequire(place + "/")("bullmq");
const REQUESTS = Number(requests), AT_ONCE = 10, RETRY_AFTER_MS = 1000, BULK = 500;
const connection = { host: "127.0.0.1", port: Number(new URL(redis).port), maxRetriesPerRequest: null };
const options = { removeOnComplete: true, removeOnFail: true, attempts: 3 };
const agent = new http.Agent({ keepAlive: true });

function ask(number) {
  return new Promise((resolve, reject) => {
    http.get(`${host}/ask/${number}`, { agent }, (answer) => {
      answer.resume();
      answer.on("end", () => resolve(answer.statusCode));
    }).on("error", reject);
  });
}

async function fill() {
  const queue = new Queue("asks", { connection });
  for (let first = 0; first < REQUESTS; first += BULK) {
    const jobs = [];
    for (let n = first; n < Math.min(first + BULK, REQUESTS); n++)
      jobs.push({ name: "ask", data: n, opts: options });
    await queue.addBulk(jobs);
  }
  await queue.close();
  console.log(JSON.stringify({ filled: REQUESTS }));
}

if (what === "fill") fill().then(() => process.exit(0));
else {
  const worker = new Worker("asks", async (job) => {
    if (await ask(job.data) === 429) {
      await worker.rateLimit(RETRY_AFTER_MS);
      throw Worker.RateLimitError();
    }
  }, { connection, concurrency: AT_ONCE, limiter: { max: Number(rate), duration: 1000 } });
}

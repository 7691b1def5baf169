/**
 * One half of a test with DPQ in Python, which starts it: tests/contract/test_typescript.py.
 *
 *     node cross.js QUEUE
 *
 * It pops what Python has pushed, ends each task as its payload says, pushes tasks for Python, and
 * prints what it saw as JSON.
 */

import { DPQ, LeaseLostError } from "../src/index.js";
import { connect } from "./server.js";

interface Payload {
  do: string;
  text: string;
}

const redis = await connect();
const queue = new DPQ<Payload>(redis, process.argv[2] ?? "", { backoff: 0 });

const seen: Record<string, unknown>[] = [];
for (let popped = await queue.pop(); popped.tasks.length > 0; popped = await queue.pop()) {
  for (const task of popped.tasks) {
    const { priority, group, attempt, lastError, payload } = task;
    seen.push({ priority: String(priority), group, attempt, lastError, ...payload });
    if (payload.do === "ack") {
      await queue.ack(task);
      seen.push({ again: await queue.ack(task) });
    } else if (payload.do === "fail" && attempt === 1) {
      await queue.fail(task, new Error("no\troute: ü"), { delay: 0 });
      seen.push({ stale: await queue.extend(task, 5).catch((e) => e instanceof LeaseLostError) });
    } else if (payload.do === "fail") {
      await queue.extend(task, 3600); // Python cancels it
    } else {
      await queue.rateLimited(task, 3600, { status: 503 });
    }
  }
}

const text = "日本 🎉";
const first = await queue.push({ do: "ack", text }, { priority: 2n ** 62n + 1n, group: "b" });
await queue.push({ do: "ack", text }, { priority: 2n ** 62n, group: "b", id: "second-of-b" });
await queue.push({ do: "ack", text }, { priority: 2n ** 62n, group: "b", id: "second-of-b" });
const kept = await queue.push({ do: "ack", text }, { priority: 0.5, key: "k", cost: { tokens: 7 } });
const again = await queue.push({ do: "ack", text }, { priority: 9, key: "k" });
await queue.push({ do: "ack", text }, { priority: -1, delay: 3600, maxAttempts: Infinity });
console.log(JSON.stringify({ seen, first, same: kept === again }));
await redis.close();

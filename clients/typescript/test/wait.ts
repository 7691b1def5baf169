/**
 * Waits for two tasks that Python pushes, and prints the markers that came: test_typescript.py.
 *
 *     node wait.js QUEUE
 */

import { DPQ } from "../src/index.js";
import { connect } from "./server.js";

const redis = await connect();
const second = await connect();
const markers: unknown[] = [];
const blocking = {
  async sendCommand(command: string[]): Promise<unknown> {
    const reply = await second.sendCommand(command);
    if (Array.isArray(reply)) {
      markers.push(reply[1]);
    }
    return reply;
  },
};
const queue = new DPQ<string>(redis, process.argv[2] ?? "", { blocking });
const found: string[] = [];
while (found.length < 2) {
  const { tasks } = await queue.pop({ timeout: 60 });
  for (const task of tasks) {
    found.push(task.payload);
    await queue.ack(task);
  }
  if (tasks.length === 0) {
    throw new Error("nothing came in 60 s");
  }
}
console.log(JSON.stringify({ found, markers }));
await Promise.all([redis.close(), second.close()]);

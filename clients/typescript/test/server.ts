/** The server of the tests: DPQ_TEST_URL is redis:// or unix:// with a path. */

import { createClient } from "redis";

import type { RedisClient } from "../src/index.js";

/** A connected client; close it at the end. */
export async function connect(): Promise<RedisClient & { close(): unknown }> {
  const url = process.env["DPQ_TEST_URL"] ?? "redis://127.0.0.1:6379/0";
  const path = url.startsWith("unix://") ? decodeURIComponent(url.slice(7)) : undefined;
  const client = createClient(path === undefined ? { url } : { socket: { path, tls: false } });
  client.on("error", () => undefined); // each call tells of its own error
  return await client.connect();
}

/** The client passes the conformance vectors: clients/vectors/*.json. */

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { after, before, test } from "node:test";

import { DPQ, DPQError, newId, type PushOptions, type Scope, type Task } from "../src/index.js";
import { callScript, type ScriptName } from "../src/scripts.js";
import { connect } from "./server.js";

type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

interface Vector {
  name: string;
  before: ({ script: ScriptName; args: string[] } | { redis: string[] })[];
  call: Record<string, Json> & { verb: string; at_ms: number };
  command: { script: ScriptName; args: string[] };
  reply: Json;
  result: Record<string, Json>;
}

const FOLDER =
  process.env["DPQ_VECTORS"] ?? new URL("../../../vectors/", import.meta.url).pathname;
const files = readdirSync(FOLDER).filter((file) => file.endsWith(".json"));
let redis: Awaited<ReturnType<typeof connect>>;

before(async () => {
  redis = await connect();
});
after(() => redis.close());

/** Options are the same in any order. */
function comparable(args: readonly string[]): Json[] {
  return args.map((arg) => (arg.startsWith("{") ? (JSON.parse(arg) as Json) : arg));
}

function task(vector: Vector): Task<Json> {
  const { tasks, id, token } = vector.call;
  const [named] = (tasks ?? [[id, token]]) as [string, string][];
  return { id: named?.[0], token: named?.[1], attempt: 1, backoff: null } as Task<Json>;
}

function seconds(ms: Json | undefined): number {
  return Number(ms) / 1000;
}

function pushOptions(call: Vector["call"]): PushOptions {
  const text = String(call["priority"]);
  const whole = /^-?\d+$/.test(text);
  const options: PushOptions = { id: String(call["id"]) };
  options.priority = whole ? BigInt(text) : Number(text);
  for (const name of ["group", "key"] as const) {
    if (name in call) {
      options[name] = String(call[name]);
    }
  }
  if ("on_duplicate" in call) {
    options.onDuplicate = call["on_duplicate"] as NonNullable<PushOptions["onDuplicate"]>;
  }
  if ("max_attempts" in call) {
    options.maxAttempts = call["max_attempts"] === null ? Infinity : Number(call["max_attempts"]);
  }
  if ("cost" in call) {
    options.cost = call["cost"] as Record<string, number>;
  }
  if ("delay_ms" in call) {
    options.delay = seconds(call["delay_ms"]);
  }
  if ("expires_in_ms" in call) {
    options.expiresIn = seconds(call["expires_in_ms"]);
  }
  return options;
}

function asVector({ payload, ...popped }: Task<Json>): Json {
  const { "": requests, ...units } = popped.cost;
  return {
    id: popped.id,
    payload,
    priority: String(popped.priority),
    group: popped.group,
    key: popped.key,
    attempt: popped.attempt,
    max_attempts: popped.maxAttempts === Infinity ? null : popped.maxAttempts,
    deliveries: popped.deliveries,
    deferrals: popped.deferrals,
    cost: [requests, ...Object.entries(units).map(([unit, n]) => `${unit}=${n}`)].join(","),
    enqueued_at_ms: popped.enqueuedAt.getTime(),
    visible_until_ms: popped.visibleUntil.getTime(),
    last_error: popped.lastError,
    token: popped.token,
  };
}

/** Calls the client as a person would; returns what the vector has as its result. */
async function call(queue: DPQ<Json>, vector: Vector): Promise<unknown> {
  const says = vector.call;
  switch (says.verb) {
    case "push":
      return { id: await queue.push(says["payload"] ?? null, pushOptions(says)) };
    case "pop": {
      const visibility = seconds(says["visibility_ms"]);
      const { tasks, wait } = await queue.pop({ most: Number(says["most"]), visibility });
      const found = tasks.map(asVector);
      return found.length > 0
        ? { tasks: found }
        : { tasks: [], wait_ms: wait === null ? null : wait * 1000 };
    }
    case "ack": {
      const [id, token, line, ms] = vector.command.args.slice(1).flatMap((arg) => arg.split("\t"));
      const times = line === undefined ? undefined : { line, ms: ms?.split(" ").map(Number) ?? [] };
      const named = { ...task(vector), id: String(id), token: String(token) };
      return { tasks: [(await queue.ack(named, times)) ? "done" : "gone"] };
    }
    case "fail": {
      const delay = seconds(says["delay_ms"]);
      return { done: await queue.fail(task(vector), says["error"], { delay }) };
    }
    case "bury":
      return { done: await queue.bury(task(vector), says["reason"]) };
    case "rate_limited": {
      const status = Number(says["status"] ?? 429);
      const scope = says["scope"] as Scope;
      await queue.rateLimited(task(vector), seconds(says["retry_after_ms"]), { scope, status });
      return { done: true };
    }
    case "extend":
      return { until_ms: (await queue.extend(task(vector), seconds(says["ms"]))).getTime() };
    default:
      throw new Error(`no verb ${says.verb}`);
  }
}

/** What the client says where a vector has the reply alone. */
function expected(vector: Vector): unknown {
  const { recheck_ms: _, ...result } = vector.result;
  for (const each of (result["tasks"] ?? []) as Record<string, Json>[]) {
    if (each instanceof Object) {
      each["priority"] = String(each["priority"]).replace(/\.0$/, ""); // one kind of numbers here
    }
  }
  if (result["missing"]) {
    return { id: vector.call["id"] }; // the client makes the queue, and pushes again
  }
  if (result["joined"]) {
    return { error: "ConfigurationError" };
  }
  if (vector.reply instanceof Array && typeof vector.reply[1] === "string" && result["tasks"]) {
    return vector.call.verb === "ack" ? { error: "CronTaskError" } : result;
  }
  const [only] = (result["tasks"] ?? []) as Json[];
  return only === "lost" ? { error: "LeaseLostError", cancelled: false } : result;
}

function told(error: unknown): Record<string, unknown> {
  assert(error instanceof DPQError, String(error));
  const { taskId, cancelled, key, size, bound, group } = error as unknown as Record<string, unknown>;
  const found: Record<string, unknown> = { error: error.name };
  if (error.name === "LeaseLostError") {
    return { ...found, cancelled };
  }
  if (error.name === "DuplicateTaskError") {
    return { ...found, key, id: taskId };
  }
  return error.name === "QueueFullError" ? { ...found, size, bound, group } : found;
}

/** Parts of the protocol that this client has no verb for. */
function isBeyond({ call: says }: Vector): boolean {
  const many = ((says["tasks"] ?? []) as Json[]).length > 1;
  return says.verb === "configure" || "unknown" in says || "batch" in says || "waiter" in says || many;
}

async function prepare(vector: Vector, keys: Record<string, string[]>, name: string) {
  const all = new Set(Object.values(keys).flat().filter((key) => !key.startsWith("{dpq}")));
  await redis.sendCommand(["DEL", ...all]);
  await redis.sendCommand(["SREM", "{dpq}:queues", name]);
  for (const each of vector.before) {
    if ("redis" in each) {
      await redis.sendCommand(each.redis);
    } else {
      await callScript(redis, name, each.script, each.args);
    }
  }
}

/** The server answers the command as the vector says. */
async function replay(vector: Vector, keys: Record<string, string[]>, name: string) {
  await prepare(vector, keys, name);
  const { script, args } = vector.command;
  const reply = await callScript(redis, name, script, args).catch((error: Error) => {
    return { error: error.message.replace(/^ERR /, "") };
  });
  assert.deepEqual(reply, vector.reply);
}

/** The client sends the command of the vector, and reads the reply as the vector says. */
async function callAsAPersonWould(vector: Vector, keys: Record<string, string[]>, name: string) {
  await prepare(vector, keys, name);
  const sent: string[][] = [];
  const recorder = {
    sendCommand(command: string[]): Promise<unknown> {
      sent.push(command);
      return redis.sendCommand(command);
    },
  };
  const queue = new DPQ<Json>(recorder, name, { clock: () => vector.call.at_ms });
  const result = await call(queue, vector).catch(told);
  const [, , size, ...rest] = sent[0] ?? [];
  const { script, args } = vector.command;
  assert.deepEqual(rest.slice(0, Number(size)), keys[script]);
  assert.deepEqual(comparable(rest.slice(Number(size))), comparable(args));
  if (!vector.result["lost"]) {
    assert.deepEqual(result, expected(vector));
  }
}

let count = 0;
for (const file of files) {
  const name = `ts-${newId()}`;
  const raw = readFileSync(`${FOLDER}/${file}`, "utf-8").replaceAll("{vectors}", `{${name}}`);
  const { keys, vectors } = JSON.parse(raw) as {
    keys: Record<string, string[]>;
    vectors: Vector[];
  };
  for (const vector of vectors) {
    count += 1;
    test(`${file}: ${vector.name}`, async (t) => {
      t.after(() => prepare({ ...vector, before: [] }, keys, name));
      await replay(vector, keys, name);
      if (!isBeyond(vector)) {
        await callAsAPersonWould(vector, keys, name);
      }
    });
  }
}

test("there are vectors", () => {
  assert(files.length > 5 && count > 50, `${count} in ${files.length} files`);
});

/** The scripts, what a lost script costs, priorities, and arguments out of their bounds. */

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";

import { ConfigurationError, DPQ, newId } from "../src/index.js";
import { decodePriority, encodePriority } from "../src/priority.js";
import { callScript, type ScriptName, textOf } from "../src/scripts.js";
import { MIN_FORMAT, SCRIPTS, STORAGE_FORMAT } from "../src/scripts.generated.js";
import { Wait } from "../src/wait.js";

test("each script has the hash of its text", () => {
  for (const name of Object.keys(SCRIPTS) as ScriptName[]) {
    assert.equal(createHash("sha1").update(textOf(name)).digest("hex"), SCRIPTS[name].sha);
  }
});

test("a server that has forgotten a script gets its text; another error passes", async () => {
  const sent: string[][] = [];
  const errors = [new Error("NOSCRIPT No matching script."), new Error("LOADING"), undefined];
  const redis = {
    sendCommand(command: string[]): Promise<unknown> {
      sent.push(command);
      const error = errors[command[0] === "EVAL" ? 2 : sent.length - 1];
      return error ? Promise.reject(error) : Promise.resolve(7);
    },
  };
  assert.equal(await callScript(redis, "q", "register", ["q"]), 7);
  assert.deepEqual(sent[1]?.slice(2), sent[0]?.slice(2));
  assert.equal(sent[1]?.[1], textOf("register"));
  errors[2] = new Error("OOM");
  errors[0] = errors[2];
  sent.length = 0;
  await assert.rejects(callScript(redis, "q", "register", ["q"]), /OOM/);
  assert.equal(sent.length, 1);
});

test("a push makes the queue, also if the list of names cannot be written", async () => {
  const replies = [[1], ["format", STORAGE_FORMAT], new Error("NOPERM"), [0]];
  const sent: string[] = [];
  const redis = {
    sendCommand(command: string[]): Promise<unknown> {
      const name = Object.entries(SCRIPTS).find(([, { sha }]) => sha === command[1])?.[0];
      sent.push(name ?? "");
      const reply = replies.shift();
      return reply instanceof Error ? Promise.reject(reply) : Promise.resolve(reply);
    },
  };
  const queue = new DPQ<string>(redis, "q");
  assert.equal(await queue.push("x", { id: "A" }), "A");
  assert.deepEqual(sent, ["push", "configure", "register", "push"]);
  replies.push([1], ["order", "min", "format", MIN_FORMAT], [0], [0]);
  assert.equal(await queue.push("x", { id: "B" }), "B");
  for (const reply of [["format", `${STORAGE_FORMAT}1`], ["order", "lifo"], []]) {
    replies.push([1], reply);
    await assert.rejects(queue.push("x"), ConfigurationError);
  }
});

test("priorities keep their value, and those that are none are refused", () => {
  for (const each of [0, -3, 2.5, 1e16, 1e300, 5e-324, -(2 ** 53), 2n ** 63n - 1n, -(2n ** 63n)]) {
    assert.equal(decodePriority(encodePriority(each).text), each);
  }
  assert.equal(encodePriority(-0).text, "0");
  assert.match(encodePriority(123456789012345680000).text, /e\+20$/);
  for (const each of [NaN, Infinity, 2n ** 63n, "5" as unknown as number]) {
    assert.throws(() => encodePriority(each), ConfigurationError);
  }
});

test("what is out of its bounds is not sent", async () => {
  const redis = { sendCommand: () => Promise.reject(new Error("it was sent")) };
  const queue = new DPQ<unknown>(redis, "q");
  const wrong = [
    { delay: -1 },
    { delay: NaN },
    { group: "" },
    { group: "a\tb" },
    { key: "k".repeat(201) },
    { key: "\ud800" },
    { maxAttempts: 0 },
    { maxAttempts: 1.5 },
    { cost: 0 },
    { cost: { Tokens: 1 } },
    { id: "a b" },
  ];
  for (const options of wrong) {
    await assert.rejects(queue.push("x", options), ConfigurationError, JSON.stringify(options));
  }
  await assert.rejects(queue.push(undefined), ConfigurationError);
  await assert.rejects(queue.pop({ most: 126 }), ConfigurationError);
  for (const name of ["", "{a}b", "a\nb"]) {
    assert.throws(() => new DPQ(redis, name), ConfigurationError);
  }
});

test("a waiter watches moments, comes at a marker, and gives its moment back", async () => {
  const sent: string[][] = [];
  const replies: unknown[] = [];
  const redis = {
    sendCommand(command: string[]): Promise<unknown> {
      sent.push(command);
      return Promise.resolve(replies.shift() ?? null);
    },
  };
  const look = (waitMs: number | null) => new Wait(redis, "wake", { tasks: [], waitMs, nowMs: 1000 });
  const called = look(null);
  replies.push(["wake", "w", "0"]);
  assert(await called.until(Infinity));
  assert.equal(called.waiter, "0");
  assert.deepEqual(sent.map(([name, key]) => [name, key]), [["BZPOPMIN", "wake"]]);

  const timed = look(5);
  assert(await timed.until(Infinity));
  assert.equal(timed.waiter, "1005.000");

  const moved = look(9000);
  replies.push(["wake", "e", 1002.5]);
  assert(await moved.until(Infinity));
  assert.equal(moved.waiter, "1002.500");

  sent.length = 0;
  assert.equal(await look(9000).until(0), false);
  assert.equal(await look(null).until(0), false);
  assert.deepEqual(sent, [["ZADD", "wake", "NX", "10000.000", "e"]]);
  await assert.rejects(new DPQ(redis, "q").pop({ timeout: 1 }), ConfigurationError);
});

test("an id has 144 random bits, and never 14 characters", () => {
  assert.match(newId(), /^[\w-]{24}$/);
  assert.notEqual(newId(), newId());
});

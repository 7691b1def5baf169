/** Tasks, and how to read them. docs/protocol.md, "The record". */

import { DPQError } from "./errors.js";
import { decodePriority } from "./priority.js";

/** The units that a task takes of a limit, by name; "" is requests. */
export type Cost = Readonly<Record<string, number>>;

/** A task that a pop has leased. */
export interface Task<P> {
  readonly id: string;
  readonly payload: P;
  /** A bigint if it is a whole number beyond 2^53. */
  readonly priority: number | bigint;
  readonly group: string | null;
  readonly key: string | null;
  /** The number of this attempt, from 1. */
  readonly attempt: number;
  /** Infinity for no limit. */
  readonly maxAttempts: number;
  /** Pops so far, this one included. */
  readonly deliveries: number;
  /** Uncounted returns at a limit. */
  readonly deferrals: number;
  readonly cost: Cost;
  readonly enqueuedAt: Date;
  /** The end of the lease, by the clock of the server. */
  readonly visibleUntil: Date;
  readonly lastError: string | null;
  /** The task's own delays after failures, seconds; null for those of the client. */
  readonly backoff: readonly number[] | null;
  /** What proves this delivery. */
  readonly token: string;
}

const COUNTS = String.raw`^(\d+) (\d+) (\d+) (\d+) \S \d+ `;
const SHORT = new RegExp(COUNTS + String.raw`q([0-9a-f]{11})\d{15}(\d*) (\S+)$`);
const FULL = new RegExp(COUNTS + String.raw`f(\d+) \d+ (\d+) (\S+) (\S+) \d+ \d+ \S+$`);
const NO_LIMIT = 1e12;

/**
 * Reads a task as a pop returns it.
 *
 * @param leaseEndMs The first number of the reply.
 * @param visibilityMs The lease that the pop has asked for.
 * @returns The task with the JSON of its payload, which is not read yet.
 * @throws DPQError if it is no record.
 */
export function readTask(
  id: string,
  raw: string,
  leaseEndMs: number,
  visibilityMs: number,
): Task<string> {
  const [record, json] = divide(raw, "\n");
  const [head, names] = divide(record, "\t");
  const [group = "", key = "", , behind = ""] = names.split("\t");
  const short = SHORT.exec(head);
  const [, token, attempts, deliveries, deferrals, since, max, priority, cost = "1"] =
    short ?? FULL.exec(head) ?? [];
  if (token === undefined || since === undefined || priority === undefined) {
    throw new DPQError(`the record of task ${id} cannot be read: ${record}`);
  }
  const most = Number(max || "10");
  const own = note(behind, "\x1f");
  const ownMs = Number(own.split(" ", 1)[0]);
  const delays = / \+([\d,]+)$/.exec(own)?.[1];
  return {
    id,
    payload: json,
    priority: decodePriority(priority),
    group: group || null,
    key: key || null,
    attempt: Number(attempts) + 1,
    maxAttempts: most === NO_LIMIT ? Infinity : most,
    deliveries: Number(deliveries),
    deferrals: Number(deferrals),
    cost: readCost(cost),
    enqueuedAt: new Date(short ? parseInt(since, 16) : Number(since)),
    visibleUntil: new Date(ownMs ? leaseEndMs - visibilityMs + ownMs : leaseEndMs),
    lastError: behind.split(/[\x18-\x1f]/, 1)[0] || null,
    backoff: delays === undefined ? null : delays.split(",").map((ms) => Number(ms) / 1000),
    token,
  };
}

function divide(text: string, mark: string): [string, string] {
  const at = text.indexOf(mark);
  return at < 0 ? [text, ""] : [text.slice(0, at), text.slice(at + 1)];
}

function note(behind: string, mark: string): string {
  const at = behind.indexOf(mark);
  return at < 0 ? "" : (behind.slice(at + 1).split(/[\x18-\x1f]/, 1)[0] ?? "");
}

function readCost(text: string): Cost {
  const [requests, ...units] = text.split(",");
  const named = units.filter((each) => !each.includes("~")).map((each) => divide(each, "="));
  return Object.fromEntries([["", Number(requests)], ...named.map(([k, n]) => [k, Number(n)])]);
}

/** Writes a cost as a record has it. The caller has checked it. */
export function writeCost(cost: Cost): string {
  const { "": requests = 1, ...units } = cost;
  const named = Object.keys(units).sort();
  return [String(requests), ...named.map((unit) => `${unit}=${units[unit]}`)].join(",");
}

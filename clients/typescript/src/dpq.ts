/** The client of one queue. docs/protocol.md says what it sends. */

import { randomBytes } from "node:crypto";

import { label, milliseconds, oneLine, units, whole } from "./check.js";
import {
  ConfigurationError,
  CronTaskError,
  DPQError,
  DuplicateTaskError,
  LeaseLostError,
  QueueFullError,
} from "./errors.js";
import { encodePriority } from "./priority.js";
import { callScript, keyOf, type RedisClient, type ScriptName } from "./scripts.js";
import { MIN_FORMAT, STORAGE_FORMAT } from "./scripts.generated.js";
import { type Cost, readTask, type Task, writeCost } from "./task.js";
import { type Look, Wait } from "./wait.js";

const COMMON_ATTEMPTS = 10;
const NO_LIMIT = 1e12;
const INLINE_BYTES = 512;
const REPLY_BYTES = 4 * 1024 * 1024;
const UPKEEP_BATCH = 100;
const MOST_TASKS = 125; // more would hold up other clients of the server

/** The settings of a client. Durations are seconds. */
export interface Settings {
  /** The lease of a pop that names none; 30 unless it is given. */
  visibility?: number;
  /** Failures until a task is dead; 10 unless it is given, Infinity for no limit. */
  maxAttempts?: number;
  /** Seconds after the first failure; doubled after each one, at most 600. 2 unless it is given. */
  backoff?: number;
  /** A second connection, such as `await redis.duplicate().connect()`, for pops that wait. */
  blocking?: RedisClient;
  /** A clock for tests, ms. Never give one to a queue that other programs use. */
  clock?: () => number;
}

/** What happens if another task has the key of a push. */
export type OnDuplicate = "keep" | "update" | "raise_priority" | "rerun" | "error";

/** The options of a push. Durations are seconds. */
export interface PushOptions {
  /** The greater one runs first. A bigint for whole numbers beyond 2^53. */
  priority?: number | bigint;
  delay?: number;
  group?: string;
  key?: string;
  onDuplicate?: OnDuplicate;
  maxAttempts?: number;
  /** A task that has not started by then is dead. */
  expiresIn?: number;
  /** Requests, or units by name: `{"": 1, tokens: 1800}`. */
  cost?: number | Cost;
  /** The id. Give it to repeat a push whose reply was lost: the task is not added twice. */
  id?: string;
}

/** What a pop has found: tasks, or when to ask again. */
export interface Popped<P> {
  readonly tasks: readonly Task<P>[];
  /** Seconds until a task may run, by time alone; null if none will. */
  readonly wait: number | null;
}

/** The next times of a task that recurs by a cron line, ms since 1970. */
export interface CronTimes {
  readonly line: string;
  readonly ms: readonly number[];
}

/** What rateLimited closes: the group of the task, the whole queue, a member, or nothing. */
export type Scope = "group" | "queue" | "member" | "task";

/** One queue. Its payloads are JSON; `P` is their type, which nothing checks. */
export class DPQ<P = unknown> {
  readonly #redis: RedisClient;
  readonly #visibility: number;
  readonly #maxAttempts: number;
  readonly #backoff: number;
  readonly #blocking: RedisClient | undefined;
  readonly #clock: (() => number) | undefined;

  /**
   * @param redis A connected client of the package `redis`, or anything with its `sendCommand`.
   * @param name The name of the queue.
   * @throws ConfigurationError An argument is out of its bounds.
   */
  constructor(
    redis: RedisClient,
    readonly name: string,
    settings: Settings = {},
  ) {
    if (/[{}]/.test(label("name", name))) {
      throw new ConfigurationError(`name is ${name}: this client knows no families of queues`);
    }
    this.#redis = redis;
    this.#visibility = milliseconds("visibility", settings.visibility ?? 30, 0.001);
    this.#maxAttempts = attempts(settings.maxAttempts ?? COMMON_ATTEMPTS);
    this.#backoff = milliseconds("backoff", settings.backoff ?? 2) / 1000;
    this.#blocking = settings.blocking;
    this.#clock = settings.clock;
  }

  /**
   * Adds a task. If another task has its key, the id of that one is returned.
   *
   * @returns The id.
   * @throws ConfigurationError, DuplicateTaskError, QueueFullError: nothing has changed.
   */
  async push(payload: P, options: PushOptions = {}): Promise<string> {
    const id = options.id ?? newId();
    if (!/^[\x21-\x7e]{1,200}$/.test(id)) {
      throw new ConfigurationError(`id is ${JSON.stringify(id)}: it must be 1 to 200 of ASCII`);
    }
    const [spec, body] = this.#spec(payload, options);
    let reply = listOf(await this.#call("push", [id, spec, body]));
    while (reply[0] === 1) {
      await this.#create("1");
      reply = listOf(await this.#call("push", [id, spec, body]));
    }
    const [status, index, other, group] = reply;
    switch (status) {
      case 0:
        return index === 1 ? String(other) : id;
      case -3:
        throw new DuplicateTaskError(options.key ?? "", String(other));
      case -4:
        throw new ConfigurationError(
          `key ${options.key} belongs to task ${String(other)} of another group`,
        );
      case -15:
        throw new QueueFullError(Number(index), Number(other), String(group) || null);
      default:
        throw new DPQError(`push answers ${JSON.stringify(reply)}`);
    }
  }

  /**
   * Leases the best tasks that may run now.
   *
   * A task whose payload is no JSON goes to the dead letters.
   * @param options `most`: up to 125 tasks, 1 unless it is given. `visibility`: seconds of the
   *   lease. `timeout`: seconds to wait for a task, on the connection `blocking`; 0 unless it is
   *   given.
   * @throws ConfigurationError This client does not know the queue's settings.
   */
  async pop(
    options: { most?: number; visibility?: number; timeout?: number } = {},
  ): Promise<Popped<P>> {
    const most = whole("most", options.most ?? 1, 1, MOST_TASKS);
    const ms =
      options.visibility === undefined
        ? this.#visibility
        : milliseconds("visibility", options.visibility, 0.001);
    const timeoutMs = milliseconds("timeout", options.timeout ?? 0);
    if (timeoutMs === 0) {
      return popped(await this.#take(most, ms, ""));
    }
    const blocking = this.#blocking;
    if (blocking === undefined) {
      throw new ConfigurationError("a pop waits on the connection `blocking`: give one to DPQ");
    }
    const deadline = performance.now() + timeoutMs;
    let found = await this.#take(most, ms, "-");
    while (found.tasks.length === 0) {
      const wait = new Wait(blocking, keyOf(this.name, "wake"), found);
      if (!(await wait.until(deadline))) {
        break;
      }
      found = await this.#take(most, ms, wait.waiter);
    }
    return popped(found);
  }

  /** Takes tasks, after all upkeep that is due. */
  async #take(most: number, ms: number, waiter: string): Promise<Look<P>> {
    const args = [most, ms, REPLY_BYTES, UPKEEP_BATCH, waiter, 1].map(String);
    for (let restored = false; ; ) {
      const reply = listOf(await this.#call("pop", args));
      const first = Number(reply[0]);
      if (first > 0) {
        const tasks = await this.#read(reply, ms);
        if (tasks.length > 0) {
          return { tasks, waitMs: null, nowMs: 0 };
        }
      } else if (first === 0) {
        const waitUs = Number(reply[1]);
        const waitMs = waitUs < 0 ? null : waitUs / 1000;
        return { tasks: [], waitMs, nowMs: Number(reply[2]) / 1000 };
      } else if (first === -9 && !restored) {
        restored = true;
        await this.#create("2");
      } else if (first === -9) {
        throw new ConfigurationError("limits and their copies are lost: set the limits again");
      } else if (first === -20) {
        throw new ConfigurationError("the queue is in a family, which this client does not know");
      } else if (first !== -5) {
        throw new DPQError(`pop answers ${JSON.stringify(reply)}`);
      }
    }
  }

  /**
   * Finishes a task.
   *
   * @param times For a task that recurs by a cron line. Without them such a task is refused with a
   *   CronTaskError, which names the line.
   * @returns False if the task was gone already, as after a repeated ack.
   * @throws LeaseLostError Another delivery has the task.
   */
  async ack(task: Task<P>, times?: CronTimes): Promise<boolean> {
    const [, code] = listOf(await this.#call("ack", [task.id, claim(task, times)]));
    if (typeof code === "string") {
      throw laterOf(task.id, code);
    }
    if (code === -1) {
      throw new LeaseLostError("ack", task.id, false);
    }
    return code === undefined;
  }

  /**
   * Counts a failed attempt. The task comes back later, or is dead if its attempts are spent.
   *
   * @param error An Error or a text; its first 1000 characters are kept as one line.
   * @param options `delay`: seconds; else the backoff of the task, or of this client. `times`: as
   *   in `ack`, for a task that recurs by a cron line and has spent its attempts.
   * @returns False if this delivery has failed before.
   * @throws LeaseLostError Another delivery has the task, or another call has ended this one.
   */
  async fail(
    task: Task<P>,
    error: unknown = "",
    options: { delay?: number; times?: CronTimes } = {},
  ): Promise<boolean> {
    const ms = milliseconds("delay", options.delay ?? this.#delayOf(task));
    const args = [task.id, claim(task, options.times), String(ms), oneLine(error)];
    const reply = await this.#call("fail", args);
    if (typeof reply === "string") {
      throw laterOf(task.id, reply);
    }
    return lease("fail", task.id, reply) !== 0;
  }

  /**
   * Makes a task a dead letter now.
   *
   * @returns False if this delivery was buried before.
   * @throws LeaseLostError Another delivery has the task, or another call has ended this one.
   */
  async bury(task: Task<P>, reason: unknown): Promise<boolean> {
    const reply = await this.#call("bury", [task.id, task.token, oneLine(reason)]);
    return lease("bury", task.id, reply) !== 0;
  }

  /**
   * Gives a task back after a 429, uncounted, and closes its group for all consumers.
   *
   * @param retryAfter Seconds until the host may be asked again.
   * @param options `scope`: what closes; the group, unless it is given. `status`: of the answer,
   *   429 unless it is given.
   * @throws LeaseLostError Another delivery has the task, or another call has ended this one.
   */
  async rateLimited(
    task: Task<P>,
    retryAfter: number,
    options: { scope?: Scope; status?: number } = {},
  ): Promise<void> {
    const ms = milliseconds("retryAfter", retryAfter);
    const status = whole("status", options.status ?? 429, 100, 999);
    const args = [task.id, task.token, String(ms), options.scope ?? "group"];
    const more = status === 429 ? [] : ["", String(status)];
    lease("rateLimited", task.id, await this.#call("rate_limited", [...args, ...more]));
  }

  /**
   * Sets a new end of a lease.
   *
   * @param seconds From now.
   * @returns The new end, by the clock of the server.
   * @throws LeaseLostError Another delivery has the task, or another call has ended this one.
   */
  async extend(task: Task<P>, seconds: number): Promise<Date> {
    const ms = milliseconds("seconds", seconds, 0.001);
    const [end] = listOf(await this.#call("extend", [task.id, task.token, String(ms)]));
    return new Date(lease("extend", task.id, end));
  }

  /** Writes the spec of a task, and its payload. */
  #spec(payload: P, options: PushOptions): [string, string] {
    const json = JSON.stringify(payload) as string | undefined;
    if (json === undefined) {
      throw new ConfigurationError(`a payload of type ${typeof payload} has no JSON form`);
    }
    const { text, residual, score } = encodePriority(options.priority ?? 0);
    const spec: Record<string, string | number> = { priority: text };
    if (residual !== "1") {
      spec["residual"] = residual;
    }
    const delay = milliseconds("delay", options.delay ?? 0);
    if (delay > 0) {
      spec["delay"] = delay;
    }
    if (options.expiresIn !== undefined) {
      spec["expires_in"] = milliseconds("expiresIn", options.expiresIn, 0.001);
    }
    const most =
      options.maxAttempts === undefined ? this.#maxAttempts : attempts(options.maxAttempts);
    const plainMost = most === COMMON_ATTEMPTS ? "" : String(most);
    if (plainMost) {
      spec["max_attempts"] = most;
    }
    const group = options.group === undefined ? "" : label("group", options.group);
    if (group) {
      spec["group"] = group;
    }
    if (options.key !== undefined) {
      spec["key"] = label("key", options.key);
      if (options.onDuplicate !== undefined && options.onDuplicate !== "keep") {
        spec["on_duplicate"] = options.onDuplicate;
      }
    }
    const cost = writeCost(units(options.cost ?? 1));
    if (cost !== "1") {
      spec["cost"] = cost;
    }
    const plain = Object.keys(spec).every((name) => PLAIN.has(name));
    if (plain && score !== undefined && Buffer.byteLength(json) <= INLINE_BYTES) {
      return [score, `${plainMost} ${text}\t${group}\n${json}`];
    }
    return [JSON.stringify(spec), json];
  }

  /** Reads the tasks of a reply; buries those whose payload is no JSON. */
  async #read(reply: readonly unknown[], visibilityMs: number): Promise<Task<P>[]> {
    const tasks: Task<P>[] = [];
    for (let i = 1; i < reply.length; i += 2) {
      const end = Number(reply[0]);
      const task = readTask(String(reply[i]), String(reply[i + 1]), end, visibilityMs);
      try {
        tasks.push({ ...task, payload: JSON.parse(task.payload) as P });
      } catch (error) {
        await this.#call("bury", [task.id, task.token, oneLine(`payload: ${String(error)}`)]);
      }
    }
    return tasks;
  }

  /** The seconds until the next attempt of a task that has failed. */
  #delayOf(task: Task<P>): number {
    const own = task.backoff;
    if (own !== null && own.length > 0) {
      return own[Math.min(task.attempt, own.length) - 1] ?? 0;
    }
    const longest = Math.min(600, this.#backoff * 2 ** (task.attempt - 1));
    return longest * (1 - 0.2 * Math.random());
  }

  /** Creates the queue, or restores what it has lost. */
  async #create(how: "1" | "2"): Promise<void> {
    const reply = listOf(await this.#call("configure", [STORAGE_FORMAT, how])).map(String);
    const format = reply.find((_, at) => at % 2 === 1 && reply[at - 1] === "format");
    if (format !== STORAGE_FORMAT && format !== MIN_FORMAT) {
      throw new ConfigurationError(
        `queue ${this.name} is stored in format ${format}, and this client knows ${STORAGE_FORMAT}`,
      );
    }
    if (how === "1") {
      try {
        await callScript(this.#redis, this.name, "register", [this.name]);
      } catch {
        // All queues share the list of names. The queue works without it.
      }
    }
  }

  /** Calls a script with the time before its arguments; refuses what this client does not know. */
  async #call(name: ScriptName, args: readonly string[]): Promise<unknown> {
    const time = this.#clock === undefined ? "" : String(this.#clock());
    const reply = await callScript(this.#redis, this.name, name, [time, ...args]);
    if (Array.isArray(reply) && (reply[0] === -7 || reply[0] === -8)) {
      const [code, stored, known] = reply as unknown[];
      throw new ConfigurationError(
        code === -8
          ? `queue ${this.name} is stored in format ${stored}, and this client knows ${known}`
          : `queue ${this.name} has ${stored} partitions, and this client knows only ${known}`,
      );
    }
    return reply;
  }
}

function claim(task: Task<unknown>, times: CronTimes | undefined): string {
  return times ? `${task.token}\t${times.line}\t${times.ms.join(" ")}` : task.token;
}

function popped<P>({ tasks, waitMs }: Look<P>): Popped<P> {
  return { tasks, wait: waitMs === null ? null : waitMs / 1000 };
}

const PLAIN = new Set(["priority", "max_attempts", "group"]);

/** Makes an id of 24 random characters. */
export function newId(): string {
  return randomBytes(18).toString("base64url");
}

function attempts(most: number): number {
  return most === Infinity ? NO_LIMIT : whole("maxAttempts", most, 1, 1_000_000);
}

function listOf(reply: unknown): readonly unknown[] {
  if (!Array.isArray(reply)) {
    throw new DPQError(`the reply is no list: ${JSON.stringify(reply)}`);
  }
  return reply as unknown[];
}

function lease(action: string, id: string, reply: unknown): number {
  if (reply === -1 || reply === -13) {
    throw new LeaseLostError(action, id, reply === -13);
  }
  return Number(reply);
}

/** Reads "ms TAB c expires_in first LINE". */
function laterOf(id: string, reply: string): CronTaskError {
  const [ms = "", schedule = ""] = reply.split("\t");
  return new CronTaskError(id, schedule.split(" ").slice(3).join(" "), Number(ms));
}

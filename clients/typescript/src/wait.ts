/** Waits for a task on the server, without polling. docs/protocol.md, "Waiting for a task". */

import type { RedisClient } from "./scripts.js";
import type { Task } from "./task.js";

/** A waiter looks again after so long in any case: a lost marker delays a task no longer. */
const RECHECK_MS = 10_000;

/** What a pop has found. */
export interface Look<P> {
  readonly tasks: readonly Task<P>[];
  /** ms until a task may run, by time alone; null if none will, or if another waiter watches. */
  readonly waitMs: number | null;
  /** The clock of the server at the pop, ms. */
  readonly nowMs: number;
}

/** One wait, after a pop that has found no task. */
export class Wait {
  readonly #redis: RedisClient;
  readonly #marker: string;
  /** What to add to a moment of the server to get one of this machine. */
  readonly #offset: number;
  /** The moment that this waiter watches, ms by the server's clock. */
  #moment: number | undefined;
  #lookAt: number;

  constructor(redis: RedisClient, marker: string, look: Look<unknown>) {
    this.#redis = redis;
    this.#marker = marker;
    this.#offset = performance.now() - look.nowMs;
    this.#lookAt = performance.now() + RECHECK_MS;
    if (look.waitMs !== null && look.waitMs < RECHECK_MS) {
      this.#watch(look.nowMs + look.waitMs);
    }
  }

  /** The argument of the next pop: the moment that this waiter watches, or "0". */
  get waiter(): string {
    return this.#moment === undefined ? "0" : this.#moment.toFixed(3);
  }

  /** Waits until it is time to pop again. Gives its moment back and returns false at a deadline. */
  async until(deadline: number): Promise<boolean> {
    for (;;) {
      const end = Math.min(this.#lookAt, deadline);
      const left = end - performance.now();
      if (left <= 0 && this.#lookAt > deadline) {
        await this.#giveBack();
        return false;
      }
      if (left <= 0) {
        return true;
      }
      const seconds = Math.max(left / 1000, 0.001).toFixed(3); // 0 would wait for ever
      const reply = await this.#redis.sendCommand(["BZPOPMIN", this.#marker, seconds]);
      if (Array.isArray(reply)) {
        const moment = Number(reply[2]);
        if (moment === 0) {
          return true;
        }
        this.#watch(moment);
      }
    }
  }

  #watch(moment: number): void {
    this.#moment = moment; // the newer one takes the older one into account
    this.#lookAt = Math.min(this.#lookAt, moment + this.#offset);
  }

  /** Lets another waiter watch the moment. A newer one, which stands there already, stays. */
  async #giveBack(): Promise<void> {
    if (this.#moment !== undefined) {
      await this.#redis.sendCommand(["ZADD", this.#marker, "NX", this.#moment.toFixed(3), "e"]);
    }
  }
}

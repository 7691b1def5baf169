/** A client of DPQ, the delayed priority queue on Redis. */

export {
  type CronTimes,
  DPQ,
  newId,
  type OnDuplicate,
  type Popped,
  type PushOptions,
  type Scope,
  type Settings,
} from "./dpq.js";
export * from "./errors.js";
export { type RedisClient } from "./scripts.js";
export { type Cost, type Task } from "./task.js";

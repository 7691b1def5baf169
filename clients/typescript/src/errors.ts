/** The errors of the client. Errors of the Redis client and of the server pass through as they are. */

/** The base of all errors of this client. */
export class DPQError extends Error {
  constructor(message: string) {
    super(message);
    this.name = new.target.name;
  }
}

/** An argument is out of its bounds, or the queue has settings that this client does not know. */
export class ConfigurationError extends DPQError {}

/** The key of a push is taken, and `onDuplicate` is "error". */
export class DuplicateTaskError extends DPQError {
  constructor(
    readonly key: string,
    /** The id of the task that has the key. */
    readonly taskId: string,
  ) {
    super(`key ${JSON.stringify(key)} is taken by task ${taskId}`);
  }
}

/** A bound of the queue, or of a group, leaves no room. */
export class QueueFullError extends DPQError {
  constructor(
    readonly size: number,
    readonly bound: number,
    /** The full group; null for the queue. */
    readonly group: string | null,
  ) {
    super(`${group === null ? "the queue" : `group ${group}`} has ${size} of at most ${bound} tasks`);
  }
}

/** Another consumer has the task, or it was cancelled: stop the work on it. */
export class LeaseLostError extends DPQError {
  constructor(
    action: string,
    readonly taskId: string,
    /** True if a person has cancelled the task. */
    readonly cancelled: boolean,
  ) {
    super(`${action} of task ${taskId}: ${cancelled ? "it was cancelled" : "the lease is lost"}`);
  }
}

/** The task recurs by a cron line, which this client cannot read: ack it with the next times. */
export class CronTaskError extends DPQError {
  constructor(
    readonly taskId: string,
    /** The cron line, with its time zone at the end. */
    readonly line: string,
    /** The next time must be later than this, ms since 1970. */
    readonly afterMs: number,
  ) {
    super(`task ${taskId} recurs by "${line}": call again with its next times, after ${afterMs} ms`);
  }
}

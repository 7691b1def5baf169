/** The scripts, and how to call one. docs/protocol.md, "Scripts". */

import { PIECES, SCRIPTS } from "./scripts.generated.js";

/** The name of a script that this client has. */
export type ScriptName = keyof typeof SCRIPTS;

/** What the client needs of a Redis client: `createClient()` of the package `redis` has it. */
export interface RedisClient {
  sendCommand(args: string[]): Promise<unknown>;
}

const texts = new Map<ScriptName, string>();

/** The text of a script, as a server gets it. */
export function textOf(name: ScriptName): string {
  let text = texts.get(name);
  if (text === undefined) {
    text = SCRIPTS[name].pieces.map((piece) => PIECES[piece] ?? "").join("");
    texts.set(name, text);
  }
  return text;
}

/** The key of a part of a queue. */
export function keyOf(queue: string, part: string): string {
  if (part === "queues" || part === "queues_tick") {
    return part === "queues" ? "{dpq}:queues" : "{dpq}:tick";
  }
  return `dpq:{${queue}}:${part}`;
}

/** Calls a script by its hash; if the server does not know it, sends its text. */
export async function callScript(
  redis: RedisClient,
  queue: string,
  name: ScriptName,
  args: readonly string[],
): Promise<unknown> {
  const { sha, keys } = SCRIPTS[name];
  const rest = [String(keys.length), ...keys.map((part) => keyOf(queue, part)), ...args];
  try {
    return await redis.sendCommand(["EVALSHA", sha, ...rest]);
  } catch (error) {
    if (error instanceof Error && error.message.startsWith("NOSCRIPT")) {
      return await redis.sendCommand(["EVAL", textOf(name), ...rest]);
    }
    throw error;
  }
}

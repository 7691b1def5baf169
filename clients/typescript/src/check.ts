/** Checks of arguments. Each error names the value and its bound. */

import { ConfigurationError } from "./errors.js";
import type { Cost } from "./task.js";

const MAX_SECONDS = 315_360_000; // 10 years
const MAX_NAME_BYTES = 200;
const MAX_TEXT_CHARACTERS = 1000;
const MAX_COST = 1_000_000_000;
const MAX_UNITS = 4;

/** Converts seconds to ms; anything above zero is at least one ms. */
export function milliseconds(name: string, seconds: number, least = 0): number {
  if (!(seconds >= least && seconds <= MAX_SECONDS)) {
    throw new ConfigurationError(
      `${name} is ${seconds}: it must be seconds from ${least} to ${MAX_SECONDS} (10 years)`,
    );
  }
  return seconds > 0 ? Math.max(1, Math.round(seconds * 1000)) : 0;
}

/** Checks the name of a group, a key or a queue. */
export function label(name: string, value: string): string {
  const size = typeof value === "string" ? Buffer.byteLength(value) : 0;
  if (size < 1 || size > MAX_NAME_BYTES || /[\p{Cc}\p{Cs}]/u.test(value)) {
    throw new ConfigurationError(
      `${name} is ${JSON.stringify(value)}: it must be 1 to ${MAX_NAME_BYTES} bytes of text, ` +
        "without control characters",
    );
  }
  return value;
}

/** Checks a whole number between two bounds, both included. */
export function whole(name: string, value: number, low: number, high: number): number {
  if (!Number.isInteger(value) || value < low || value > high) {
    throw new ConfigurationError(
      `${name} is ${value}: it must be a whole number from ${low} to ${high}`,
    );
  }
  return value;
}

/** Checks a cost: a number of requests, or units by name. */
export function units(cost: number | Cost): Cost {
  if (typeof cost === "number") {
    return { "": whole("cost", cost, 1, MAX_COST) };
  }
  const names = Object.keys(cost).filter((unit) => unit !== "");
  const wrong = names.find((unit) => !/^[a-z][a-z0-9_]{0,15}$/.test(unit));
  if (wrong !== undefined || names.length > MAX_UNITS) {
    throw new ConfigurationError(
      `cost names ${names.join(", ")}: it may name ${MAX_UNITS} units, each 1 to 16 of a-z, 0-9 ` +
        "and _, a letter first",
    );
  }
  for (const [unit, number] of Object.entries(cost)) {
    whole(`cost[${JSON.stringify(unit)}]`, number, 0, MAX_COST);
  }
  return cost;
}

/** Shortens a text that is stored with a task, and replaces its control characters. */
export function oneLine(text: unknown): string {
  const whole = String(text instanceof Error ? `${text.name}: ${text.message}` : text);
  const short = Array.from(whole).slice(0, MAX_TEXT_CHARACTERS).join("");
  return short.replace(/\p{Cc}/gu, " ").replace(/\p{Cs}/gu, "?");
}

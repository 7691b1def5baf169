/** Priorities: as text, as a score, and what a double loses of them. docs/protocol.md, "Priorities". */

import { ConfigurationError } from "./errors.js";

const INT64_MIN = -(2n ** 63n);
const INT64_MAX = 2n ** 63n - 1n;
const EXACT = 2 ** 53;

/** A priority as the scripts take it. */
export interface EncodedPriority {
  /** The text of a record, which keeps the type. */
  readonly text: string;
  /** What the double lost; "1" for nothing. */
  readonly residual: string;
  /** Minus the priority, as text; undefined if it is no whole number that a double holds. */
  readonly score: string | undefined;
}

/**
 * Encodes a priority: a number, or a bigint of 64 bits for whole numbers beyond 2^53.
 *
 * A number beyond 2^53 is taken as a float: a whole number of that size is already rounded.
 * @throws ConfigurationError for any other value.
 */
export function encodePriority(priority: number | bigint): EncodedPriority {
  if (typeof priority === "bigint") {
    if (priority < INT64_MIN || priority > INT64_MAX) {
      throw refused(priority);
    }
    const lost = priority - BigInt(Number(priority));
    const text = priority.toString();
    if (lost === 0n) {
      return { text, residual: "1", score: (-priority).toString() };
    }
    const digits = (lost > 0n ? 999n - lost : -lost).toString().padStart(3, "0");
    return { text, residual: (lost > 0n ? "0" : "2") + digits, score: undefined };
  }
  if (typeof priority !== "number" || !Number.isFinite(priority)) {
    throw refused(priority);
  }
  if (Number.isInteger(priority) && Math.abs(priority) <= EXACT) {
    return encodePriority(BigInt(priority));
  }
  const shortest = String(priority);
  const text = /^-?\d+$/.test(shortest) ? priority.toExponential() : shortest;
  return { text, residual: "1", score: undefined };
}

/** Reads the text of a priority: a number, or a bigint for whole numbers beyond 2^53. */
export function decodePriority(text: string): number | bigint {
  if (!/^-?\d+$/.test(text)) {
    return Number(text);
  }
  const whole = BigInt(text);
  return whole >= -BigInt(EXACT) && whole <= BigInt(EXACT) ? Number(whole) : whole;
}

function refused(priority: unknown): ConfigurationError {
  return new ConfigurationError(
    `priority is ${String(priority)}: it must be a finite number, or a bigint from -2^63 to 2^63-1`,
  );
}

// SPDX-License-Identifier: Apache-2.0
// From counters that only grow to rates, and what is made of them. A daemon that is started anew
// begins at zero: between samples of two daemons there is no rate.

export type Counters = Record<string, number>;

export interface Sample {
  at: number;  // seconds, of any clock
  pid: number;
  counters: Counters;
  rss: number;
  buffers: number;
}

export const ORIGINS = ['memory', 'cache', 'source', 'local_disk'] as const;
export type Origin = (typeof ORIGINS)[number];
export const OPERATIONS = ['read', 'list', 'stat', 'write', 'remove'] as const;
export type Operation = (typeof OPERATIONS)[number];

export const originCounter = (origin: Origin) => `leat_fetch_bytes_total{origin="${origin}"}`;
export const requestCounter = (operation: Operation) =>
  `leat_source_requests_total{store_op="${operation}"}`;

/** The sum of a counter over all of its labels. */
export function total(counters: Counters, name: string): number {
  let sum = 0;
  for (const [key, value] of Object.entries(counters)) {
    if (key === name || key.startsWith(`${name}{`)) sum += value;
  }
  return sum;
}

// The page samples each second and the daemon every five; a longer gap (the daemon was away) is no
// time of which anything is known.
export const GAP_SECONDS = 12;

/** How fast a value grew between two samples; undefined where that cannot be said. */
export function growth(before: Sample | undefined, after: Sample | undefined,
  value: (counters: Counters) => number, gap = GAP_SECONDS): number | undefined {
  if (!before || !after || before.pid !== after.pid) return undefined;
  const seconds = after.at - before.at;
  if (seconds <= 0 || seconds > gap) return undefined;
  const grown = value(after.counters) - value(before.counters);
  return grown < 0 ? undefined : grown / seconds;
}

/** The rate over the last `seconds` of the samples that one daemon gave. */
export function recent(samples: readonly Sample[], seconds: number,
  value: (counters: Counters) => number): number | undefined {
  const last = samples[samples.length - 1];
  const first = oldestWithin(samples, seconds);
  return growth(first, last, value, Infinity);
}

/** The oldest sample within `seconds` of the last one, of the same daemon. */
export function oldestWithin(samples: readonly Sample[], seconds: number): Sample | undefined {
  const last = samples[samples.length - 1];
  if (!last) return undefined;
  let oldest = last;
  for (let i = samples.length - 2; i >= 0; i -= 1) {
    const sample = samples[i] as Sample;
    if (sample.pid !== last.pid || last.at - sample.at > seconds) break;
    oldest = sample;
  }
  return oldest;
}

const bytesFrom = (counters: Counters, origin: Origin) => counters[originCounter(origin)] ?? 0;

/** Of the bytes of stores that programs read, the share that no store was asked for: 0 to 1. Files
 * on local disks are read where they are and count in neither. */
export function hitShare(before: Counters | undefined, after: Counters): number | undefined {
  const part = (origin: Origin) =>
    bytesFrom(after, origin) - (before ? bytesFrom(before, origin) : 0);
  const hits = part('memory') + part('cache');
  const all = hits + part('source');
  return all > 0 && hits >= 0 ? hits / all : undefined;
}

/** A series for a chart: a value for each sample but the first, null where there is a gap. */
export function series(samples: readonly Sample[],
  value: (counters: Counters) => number): (number | null)[] {
  return samples.slice(1).map((sample, i) => growth(samples[i], sample, value) ?? null);
}

/** Samples no older than `seconds`, and as many as `most`. */
export function trimmed(samples: readonly Sample[], seconds: number, most: number): Sample[] {
  const last = samples[samples.length - 1];
  if (!last) return [];
  return samples.filter((sample) => last.at - sample.at <= seconds).slice(-most);
}

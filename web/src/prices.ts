// SPDX-License-Identifier: Apache-2.0
// What the requests to a store may have cost. An estimate: the daemon counts its requests, not
// what was billed, and knows no discounts, free tiers, classes of storage or taxes.
import { OPERATIONS, requestCounter, total } from './counters';
import type { Counters, Operation } from './counters';

export interface Prices {
  name: string;
  per1000: Record<Operation, number>;  // US dollars for 1,000 requests
  perGiB: number;  // US dollars for a GiB that leaves the store
}

/** When the lists below were looked up. */
export const PRICES_OF = 'May 2026';

// Public list prices in US dollars: S3 Standard in us-east-1, Cloud Storage Standard in a US
// region, Azure Blob Storage hot tier with local redundancy in East US (whose list is per 10,000).
// Bytes cost nothing within the store's own region, which is the case that Leat is for; over the
// Internet the first terabytes cost about $0.09 (S3), $0.12 (Google) and $0.087 (Azure) a GB.
export const LISTS: Record<string, Prices> = {
  s3: { name: 'Amazon S3 Standard, us-east-1',
    per1000: { read: 0.0004, list: 0.005, stat: 0.0004, write: 0.005, remove: 0 }, perGiB: 0 },
  gcs: { name: 'Google Cloud Storage Standard, US region',
    per1000: { read: 0.0004, list: 0.005, stat: 0.0004, write: 0.005, remove: 0 }, perGiB: 0 },
  azure: { name: 'Azure Blob Storage hot, LRS, East US',
    per1000: { read: 0.00044, list: 0.0055, stat: 0.00044, write: 0.0055, remove: 0 }, perGiB: 0 },
  none: { name: 'a store without fees',
    per1000: { read: 0, list: 0, stat: 0, write: 0, remove: 0 }, perGiB: 0 },
};

export interface Estimate {
  operations: { operation: Operation; requests: number; cost: number }[];
  retries: { requests: number; cost: number };
  transfer: { bytes: number; cost: number };
  total: number;
}

const GIB = 1024 ** 3;

/** Requests by `counters`. Retries are billed, too; most of them are reads. */
export function estimate(counters: Counters, prices: Prices): Estimate {
  const operations = OPERATIONS.map((operation) => {
    const requests = counters[requestCounter(operation)] ?? 0;
    return { operation, requests, cost: (requests / 1000) * prices.per1000[operation] };
  });
  const again = total(counters, 'leat_source_retries_total');
  const retries = { requests: again, cost: (again / 1000) * prices.per1000.read };
  const moved = total(counters, 'leat_source_bytes_total');
  const transfer = { bytes: moved, cost: (moved / GIB) * prices.perGiB };
  const sum = operations.reduce((all, one) => all + one.cost, retries.cost + transfer.cost);
  return { operations, retries, transfer, total: sum };
}

/** What was kept of an earlier visit, whatever it is by now; undefined where it is of no use. */
export function parsePrices(text: string | null): Prices | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text ?? '');
  } catch {
    return undefined;
  }
  const prices = value as Partial<Prices> | null;
  if (typeof prices !== 'object' || prices === null || typeof prices.name !== 'string') {
    return undefined;
  }
  const each = OPERATIONS.map((operation) => prices.per1000?.[operation]);
  if (![...each, prices.perGiB].every(isPrice)) return undefined;
  return prices as Prices;
}

/** "0.0004" → 0.0004; undefined for what is no price. */
export function parsePrice(text: string): number | undefined {
  const value = text.trim() === '' ? NaN : Number(text.trim());
  return isPrice(value) ? value : undefined;
}

function isPrice(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0 && value <= 1e6;
}

/** The list that suits most mounts: their schemes decide. */
export function suggestedList(sources: readonly string[]): string {
  const named = (scheme: string) => sources.filter((source) => source.startsWith(scheme)).length;
  const counts: [string, number][] = [
    ['s3', named('s3://')], ['gcs', named('gs://')], ['azure', named('az://') + named('abfs://')],
  ];
  const best = counts.reduce((one, other) => (other[1] > one[1] ? other : one));
  return best[1] > 0 ? best[0] : 'none';
}

// SPDX-License-Identifier: Apache-2.0
// The daemon's own last hour, made into samples like those that the page takes itself.
import type { Sample } from './counters';
import type { History } from './types';

const RSS = 'process_resident_memory_bytes';
const BUFFERS = 'leat_fetch_memory_bytes';
// A sample of the page's own is finer than one of the daemon's this near to it.
const NEAR_SECONDS = 2.5;

/** `now` in seconds, of the page's clock. */
export function samplesOf(history: History, now: number): Sample[] {
  const names = Object.keys(history.series);
  return history.ages_seconds.map((age, i) => {
    const at = (name: string) => history.series[name]?.[i] ?? 0;
    return {
      at: now - age, pid: history.pid, rss: at(RSS), buffers: at(BUFFERS),
      counters: Object.fromEntries(names.map((name) => [name, at(name)])),
    };
  });
}

/** The page's samples, with the daemon's where the page has none: before it was opened, and while
 * it was hidden. Both and the result are sorted by time. */
export function filled(own: readonly Sample[], daemons: readonly Sample[]): Sample[] {
  const missing: Sample[] = [];
  let near = 0;
  for (const sample of daemons) {
    while (near < own.length && (own[near] as Sample).at < sample.at - NEAR_SECONDS) near += 1;
    const next = own[near];
    if (!next || next.at > sample.at + NEAR_SECONDS) missing.push(sample);
  }
  return [...own, ...missing].sort((one, other) => one.at - other.at);
}

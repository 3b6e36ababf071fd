// SPDX-License-Identifier: Apache-2.0
// Feeds: what is asked of the daemon again and again, for as long as somebody looks. One request is
// under way at a time; a hidden page asks nothing.
import { useEffect, useState } from 'preact/hooks';
import { ask, asFailure, linkState, onLink, QUICK_MS } from './api';
import type { Failure, LinkState } from './api';
import { filled, samplesOf } from './history';
import { JobRates } from './job_progress';
import { FOLDER_BYTES, FOLDER_ERRORS, LOADED, PASSTHROUGH_OPENS } from './throughput';
import { GAP_SECONDS, trimmed } from './counters';
import type { Counters, Sample } from './counters';
import type { Finding, History, Job, PathError, SlowOperation, Status } from './types';

export interface View<T> { value: T | undefined; failure: Failure | undefined; }

const LIVE_MS = 1_000;
const SLOW_MS = 5_000;
// To one that does not answer.
const AGAIN_MS = 2_000;

class Feed<T> {
  view: View<T> = { value: undefined, failure: undefined };
  private readonly watchers = new Map<(view: View<T>) => void, number>();
  private timer = 0;
  private busy = false;

  constructor(private readonly target: string,
    private readonly take: (value: T) => void = () => {}) {
    document.addEventListener('visibilitychange', () => this.wake());
  }

  watch(watcher: (view: View<T>) => void, period: number): () => void {
    this.watchers.set(watcher, period);
    this.wake();
    return () => {
      this.watchers.delete(watcher);
      if (this.watchers.size === 0) window.clearTimeout(this.timer);
    };
  }

  /** Asks now. */
  wake(): void {
    window.clearTimeout(this.timer);
    if (!this.busy && this.watchers.size > 0 && !document.hidden) void this.refresh();
  }

  private async refresh(): Promise<void> {
    this.busy = true;
    try {
      const value = await ask<T>('GET', this.target, undefined, QUICK_MS);
      this.take(value);
      this.view = { value, failure: undefined };
    } catch (reason) {
      this.view = { value: this.view.value, failure: asFailure(reason) };
    }
    this.busy = false;
    for (const watcher of [...this.watchers.keys()]) watcher(this.view);
    if (this.watchers.size === 0 || document.hidden || linkState() === 'denied') return;
    const period = this.view.failure ? AGAIN_MS : Math.min(...this.watchers.values());
    this.timer = window.setTimeout(() => this.wake(), period);
  }
}

const HISTORY_SECONDS = 3600;
// The page takes one a second; the daemon takes fewer.
const SAMPLES_MAX = HISTORY_SECONDS + 1;
let samples: Sample[] = [];
export const jobRates = new JobRates();
const now = () => Date.now() / 1000;

/** Of some hundred counters those of which there is a history. */
function charted(counters: Counters): Counters {
  return Object.fromEntries(Object.entries(counters).filter(([name]) =>
    name.startsWith('leat_fetch_bytes_total') || name.startsWith('leat_source_') ||
    name === LOADED || name === PASSTHROUGH_OPENS || name.startsWith(FOLDER_BYTES) ||
    name.startsWith(FOLDER_ERRORS)));
}

// Once for each time that the page has not looked: before it was opened, or while it was hidden.
async function fillIn(): Promise<void> {
  try {
    const history = await ask<History>('GET', '/v1/history', undefined, QUICK_MS);
    samples = filled(samples, samplesOf(history, now()));
  } catch {
    // An earlier version of the daemon keeps none: charts begin with the page.
  }
}

const statusFeed = new Feed<Status>('/v1/status', (status) => {
  const last = samples[samples.length - 1];
  if (!last || last.pid !== status.pid || now() - last.at > GAP_SECONDS / 2) void fillIn();
  samples = trimmed([...samples, {
    at: now(), pid: status.pid, counters: charted(status.counters), rss: status.rss_bytes,
    buffers: status.fetch.memory_bytes,
  }], HISTORY_SECONDS, SAMPLES_MAX);
});
const jobsFeed = new Feed<{ jobs: Job[] }>('/v1/jobs', (answer) => {
  jobRates.note(now(), answer.jobs);
});
const findingsFeed = new Feed<{ findings: Finding[] }>('/v1/findings');
const errorsFeed = new Feed<{ errors: PathError[] }>('/v1/errors');
const slowFeed = new Feed<{ operations: SlowOperation[] }>('/v1/slow');

function useFeed<T>(feed: Feed<T>, period: number): View<T> {
  const [view, setView] = useState(feed.view);
  useEffect(() => feed.watch(setView, period), [feed, period]);
  return view;
}

/** `live`: each second; otherwise as often as the frame around the page needs. */
export const useStatus = (live = true) => useFeed(statusFeed, live ? LIVE_MS : SLOW_MS);
export const useJobs = (live = true) => useFeed(jobsFeed, live ? LIVE_MS : SLOW_MS);
export const useFindings = () => useFeed(findingsFeed, SLOW_MS);
export const useErrors = () => useFeed(errorsFeed, SLOW_MS);
export const useSlow = () => useFeed(slowFeed, SLOW_MS);
/** Samples of the last hour; grows with useStatus. */
export const history = () => samples;

export function wakeAll(): void {
  statusFeed.wake();
  jobsFeed.wake();
  findingsFeed.wake();
  errorsFeed.wake();
  slowFeed.wake();
}

export function useLink(): LinkState {
  const [state, setState] = useState(linkState());
  useEffect(() => onLink(setState), []);
  return state;
}

// SPDX-License-Identifier: Apache-2.0
// How far a job is, how fast, and how long it may still take.
import type { Job } from './types';

export interface Progress {
  /** 0 to 1; undefined while it is not known how much there is. */
  share: number | undefined;
  bytesPerSecond: number | undefined;
  filesPerSecond: number | undefined;
  secondsLeft: number | undefined;
}

interface Mark { at: number; bytes: number; files: number; }

const WINDOW_SECONDS = 10;

/** Remembers the last seconds of each running job. */
export class JobRates {
  private marks = new Map<number, Mark[]>();

  /** `at` in seconds; the jobs as they are then. Forgets those that have ended. */
  note(at: number, jobs: readonly Job[]): void {
    const running = new Map<number, Mark[]>();
    for (const job of jobs) {
      if (job.state !== 'running') continue;
      const known = this.marks.get(job.id) ?? [];
      const last = known[known.length - 1];
      const mark = { at, bytes: job.bytes_done, files: job.files_done };
      // Less than before: another daemon's job of that number.
      const goesOn = !last || (last.bytes <= mark.bytes && last.files <= mark.files);
      const kept = goesOn ? known.filter((one) => at - one.at <= WINDOW_SECONDS) : [];
      running.set(job.id, [...kept, mark]);
    }
    this.marks = running;
  }

  of(job: Job): Progress {
    const marks = this.marks.get(job.id) ?? [];
    const first = marks[0];
    const last = marks[marks.length - 1];
    const seconds = first && last ? last.at - first.at : 0;
    const known = first && last && seconds >= 0.5;
    const bytesPerSecond = known ? (last.bytes - first.bytes) / seconds : undefined;
    const filesPerSecond = known ? (last.files - first.files) / seconds : undefined;
    return {
      share: shareOf(job), bytesPerSecond, filesPerSecond,
      secondsLeft: secondsLeft(job, bytesPerSecond, filesPerSecond),
    };
  }
}

const OF_BYTES = ['load', 'verify', 'copy'];

/** Whether its progress is in bytes; other jobs go through files. */
export function countsBytes(job: Job): boolean {
  return OF_BYTES.includes(job.kind) && job.bytes_total > 0;
}

/** Seconds; undefined where the daemon does not say when it began. `at` in seconds since 1970. */
export function endedAgo(job: Job, at: number): number | undefined {
  const started = Date.parse(job.started ?? '') / 1000;
  return Number.isFinite(started) ? at - started - job.seconds : undefined;
}

export function shareOf(job: Job): number | undefined {
  if (job.state === 'done') return 1;
  if (!job.planned && job.state === 'running') return undefined;
  const [done, all] = countsBytes(job) ? [job.bytes_done, job.bytes_total]
    : [job.files_done, job.files_total];
  return all > 0 ? Math.min(1, done / all) : undefined;
}

function secondsLeft(job: Job, bytesPerSecond: number | undefined,
  filesPerSecond: number | undefined): number | undefined {
  if (!job.planned) return undefined;
  const [left, speed] = countsBytes(job) ? [job.bytes_total - job.bytes_done, bytesPerSecond]
    : [job.files_total - job.files_done, filesPerSecond];
  return speed && speed > 0 ? Math.max(0, left) / speed : undefined;
}

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

// What a load has to do is bytes; the others go through files.
function countsBytes(job: Job): boolean {
  return (job.kind === 'load' || job.kind === 'verify') && job.bytes_total > 0;
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

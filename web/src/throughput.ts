// SPDX-License-Identifier: Apache-2.0
// Headline throughput. The daemon counts what it hands to programs and what it loads from stores.
// No interface of the kernel counts what the kernel reads by itself, so a rate of 0 is no figure
// while it has files to read: it is shown as not counted.
import { growth, oldestWithin, recent, total } from './counters';
import type { Counters, Sample } from './counters';
import * as format from './format';
import type { Mount } from './types';

export const LOADED = 'leat_fetch_source_bytes_total';
export const PASSTHROUGH_OPENS = 'leat_fuse_opens_total{mode="passthrough"}';
export const FOLDER_BYTES = 'leat_vfs_read_bytes_total';
export const FOLDER_ERRORS = 'leat_vfs_read_errors_total';
export const NOT_COUNTED = 'not counted';

export const toPrograms = (counters: Counters) => total(counters, 'leat_fetch_bytes_total');
export const loaded = (counters: Counters) => counters[LOADED] ?? 0;

export const passthroughFiles = (mounts: readonly Mount[]) =>
  mounts.reduce((sum, mount) => sum + mount.passthrough_files, 0);

/** Whether programs have, or had in the last seconds, files that the kernel reads by itself. */
export function kernelReads(mounts: readonly Mount[], samples: readonly Sample[],
  seconds: number): boolean {
  if (passthroughFiles(mounts) > 0) return true;
  const last = samples[samples.length - 1];
  const opens = growth(oldestWithin(samples, seconds), last,
    (counters) => counters[PASSTHROUGH_OPENS] ?? 0, Infinity);
  return (opens ?? 0) > 0;
}

// As the daemon writes labels.
const escaped = (path: string) => path.replace(/[\\"]/g, '\\$&').replace(/\n/g, '\\n');

/** A counter of the reads of one mount; `path` as the daemon says it. */
export const folderCounter = (name: string, path: string) => `${name}{folder="${escaped(path)}"}`;

/** How fast it grew lately. Samples that do not have it, as those of the daemon's history, say
 * nothing of it. */
export function folderRate(samples: readonly Sample[], seconds: number, name: string,
  path: string): number | undefined {
  const counter = folderCounter(name, path);
  const known = samples.filter((sample) => sample.counters[counter] !== undefined);
  return recent(known, seconds, (counters) => counters[counter] ?? 0);
}

/** "24.0 MiB/s", or that nothing is known where only the kernel reads. */
export function programRate(bytesPerSecond: number | undefined, byKernel: boolean): string {
  return byKernel && !((bytesPerSecond ?? 0) > 0) ? NOT_COUNTED : format.byteRate(bytesPerSecond);
}

/** The words beside it. */
export function kernelNote(files: number): string {
  if (files === 0) return 'by the kernel itself: not counted';
  return `by the kernel itself: ${format.count(files)} open ${
    files === 1 ? 'file' : 'files'}, not counted`;
}

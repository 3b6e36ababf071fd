// SPDX-License-Identifier: Apache-2.0
// What is wrong or could be better, in words, with what to do: plain functions of what the daemon
// says.
import * as format from './format';
import { total } from './counters';
import { joined, shown, wireOf } from './names';
import type { Mount, PathError, Status } from './types';

export interface Finding {
  level: 'problem' | 'note';
  title: string;
  detail: string;
  action: string;
}

// From here on it is worth a word. Buffers are none: what is just done stays there until there is
// no room, so they are mostly full.
const OPEN_FILES_NEAR = 0.8;

export function findings(status: Status, errors: readonly PathError[]): Finding[] {
  const found = [
    ...ofDirectories(status), ...ofCache(status), ...ofErrors(errors), ...ofStores(status),
    ...ofLimits(status), ...ofMounts(status), ...ofDaemon(status),
  ];
  return [...found.filter((one) => one.level === 'problem'),
    ...found.filter((one) => one.level === 'note')];
}

function problem(title: string, detail: string, action: string): Finding {
  return { level: 'problem', title, detail, action };
}

function note(title: string, detail: string, action: string): Finding {
  return { level: 'note', title, detail, action };
}

function ofDirectories(status: Status): Finding[] {
  const meaning: Record<string, string> = {
    unstable: 'It is read, takes nothing new in, and is tried every 5 s.',
    down: 'It is not asked at all; what it held is fetched from the stores.',
  };
  return status.cache.directories.filter((one) => one.state !== 'normal').map((one) => problem(
    `Cache directory ${shown(wireOf(one, 'path'))} is ${one.state}`,
    [one.why, meaning[one.state]].filter(Boolean).join('. '),
    'Look at the disk and the system log; the directory comes back by itself once calls succeed.'));
}

function ofCache(status: Status): Finding[] {
  const found: Finding[] = [];
  if (status.cache.corrupt_blocks > 0) {
    found.push(problem(
      `${format.count(status.cache.corrupt_blocks)} cached blocks did not match their checksums`,
      'They were dropped and fetched again; no reader saw them. A disk or memory may be failing.',
      'leat cache verify reads everything and compares it.'));
  }
  if (status.cache.refused_bytes > 0) {
    found.push(note(
      `${format.bytes(status.cache.refused_bytes)} were not kept for want of space`,
      'Since the daemon started. They were read from the store and will be again.',
      'Give the cache more room (cache.size), or mounts a quota, so that others keep theirs.'));
  }
  return found;
}

/** Whole, in wire form. */
export function pathOf(error: PathError): string {
  const mount = wireOf(error, 'mount');
  const path = wireOf(error, 'path');
  return path === '.' ? mount : joined(mount, path);
}

function ofErrors(errors: readonly PathError[]): Finding[] {
  const first = errors[0];
  if (!first) return [];
  const what = errors.length === 1 ? 'A path could not be read'
    : `${format.count(errors.length)} paths could not be read`;
  return [problem(what,
    `Last at ${format.time(first.time)} UTC: ${shown(pathOf(first))}, ${first.code}.`,
    'Recent errors on the health page say why; so does .leat/errors of the folder.')];
}

function ofStores(status: Status): Finding[] {
  const found: Finding[] = [];
  const openings = total(status.counters, 'leat_source_circuit_openings_total');
  if (openings > 0) {
    found.push(note(
      `A store was left alone ${openings === 1 ? 'once' : `${format.count(openings)} times`}`,
      'It failed every request for a while, so it was tried now and then only.',
      'Look at the store, its network and credentials; the log says which and why.'));
  }
  const throttled = total(status.counters, 'leat_source_throttled_total');
  if (throttled > 0) {
    found.push(note(
      `Stores asked ${format.count(throttled)} times for fewer requests`,
      'Leat slows down by itself and speeds up again.',
      'requests_per_second of a mount sets a limit of your own.'));
  }
  return found;
}

function ofLimits(status: Status): Finding[] {
  const found: Finding[] = [];
  const { open_files: open, open_files_max: most } = status;
  if (most > 0 && open >= most * OPEN_FILES_NEAR) {
    found.push(problem(`${format.count(open)} of ${format.count(most)} files are open`,
      'At the limit, opens and requests to stores fail.',
      'Raise the limit of open files (ulimit -n, LimitNOFILE=) and let leat upgrade take over.'));
  }
  return found;
}

// What a mount asked for itself is no finding.
const WANTED = ['it was not asked for', 'opens are left out (no_open)'];

export function passthroughMissing(mount: Mount): boolean {
  return mount.door && mount.passthrough_off !== '' && !WANTED.includes(mount.passthrough_off);
}

function ofMounts(status: Status): Finding[] {
  return status.mounts.filter(passthroughMissing).map((mount) => note(
    `The kernel does not read files of ${shown(wireOf(mount, 'path'))} by itself`,
    `Passthrough is off: ${mount.passthrough_off}. Cached files cost more processor time.`,
    'leat doctor says what changes it.'));
}

function ofDaemon(status: Status): Finding[] {
  const found: Finding[] = [];
  if (status.restarts > 0) {
    found.push(note(
      `The daemon was started ${format.count(status.restarts + 1)} times`,
      'By upgrades, or because it had died; folders went on.',
      status.log_file ? `The log says why: ${status.log_file}` : 'The log says why.'));
  }
  if (status.supervisor_pid === 0) {
    found.push(note('Nobody would start the next daemon', 'There is no supervisor, so folders ' +
      'answer errors if the daemon dies.', 'daemon.supervised=true lets them go on.'));
  }
  return found;
}

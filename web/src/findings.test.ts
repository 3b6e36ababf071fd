// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { findings } from './findings';
import type { CacheDirectory, Mount, PathError, Status } from './types';

const stats = {
  capacity_bytes: 100, used_bytes: 50, held_bytes: 0, files: 1, packed_objects: 0, segments: 0,
  evicted_bytes: 0, corrupt_blocks: 0, refused_bytes: 0,
};
const directory: CacheDirectory = { ...stats, path: '/c', state: 'normal' };
const mount: Mount = {
  path: '/m', source: 's3://b/', options: {}, paths: [], freshness: 'immutable', read_only: true,
  allow_other: false, inspection: true, door: true, features: { passthrough: true },
  passthrough_off: '', passthrough_files: 0, uid: 0, gid: 0, umask: '022',
};

function status(change: Partial<Status>): Status {
  return {
    version: '1', pid: 1, supervisor_pid: 2, restarts: 0, uptime_seconds: 1, rss_bytes: 1,
    open_files: 10, open_files_max: 100, metrics_address: '', log_file: '',
    cache: { ...stats, directories: [directory], pools: [] },
    fetch: { memory_bytes: 0, memory_bytes_max: 100, requests_in_flight: 0 },
    options: {}, counters: {}, mounts: [mount], ...change,
  };
}

const titles = (change: Partial<Status>, errors: PathError[] = []) =>
  findings(status(change), errors).map((one) => `${one.level}: ${one.title}`);

test('a daemon that is well has no finding', () => {
  assert.deepEqual(titles({}), []);
});

test('problems come first, whatever the order in which they are looked for', () => {
  assert.deepEqual(titles({
    cache: { ...stats, refused_bytes: 2048, pools: [],
      directories: [{ ...directory, state: 'down', why: 'EIO' }] },
    open_files: 90,
  }), [
    'problem: Cache directory /c is down', 'problem: 90 of 100 files are open',
    'note: 2.0 KiB were not kept for want of space',
  ]);
});

test('passthrough that is missing is a finding, that was not wanted is none', () => {
  assert.deepEqual(titles({ mounts: [{ ...mount, passthrough_off: 'overlayfs' }] }),
    ['note: The kernel does not read files of /m by itself']);
  assert.deepEqual(titles({ mounts: [{ ...mount, passthrough_off: 'it was not asked for' }] }), []);
  assert.deepEqual(titles({ mounts: [{ ...mount, door: false, passthrough_off: 'x' }] }), []);
});

test('errors, corrupt blocks, stores and limits', () => {
  const failed: PathError = {
    time: '2026-11-21T14:46:02Z', code: 'unavailable', mount: '/m', path: 'a\nb', reason: 'away',
  };
  assert.deepEqual(titles({}, [failed, failed]), ['problem: 2 paths could not be read']);
  assert.match(findings(status({}), [failed])[0]?.detail ?? '', /\/m\/a<U\+000A>b/);
  assert.deepEqual(titles({
    cache: { ...stats, corrupt_blocks: 1, directories: [directory], pools: [] },
    counters: { leat_source_throttled_total: 3, leat_source_circuit_openings_total: 1 },
    restarts: 1, supervisor_pid: 0,
  }), [
    'problem: 1 cached blocks did not match their checksums', 'note: A store was left alone once',
    'note: Stores asked 3 times for fewer requests',
    'note: The daemon was started 2 times', 'note: Nobody would start the next daemon',
  ]);
});

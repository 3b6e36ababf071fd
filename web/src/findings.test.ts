// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { passthroughMissing, pathOf, titleOf, toShow } from './findings';
import type { Finding, Mount, PathError } from './types';

function finding(level: Finding['level'], name: string, change: Partial<Finding> = {}): Finding {
  return { level, name, subject: '', what: 'it is so', cost: 'time', action: 'look', ...change };
}

test('problems come first and what is fine is left out', () => {
  const found = toShow([finding('note', 'a'), finding('ok', 'b'), finding('problem', 'c'),
    finding('note', 'd')]);
  assert.deepEqual(found.map((one) => one.name), ['c', 'a', 'd']);
  assert.deepEqual(toShow([finding('ok', 'a')]), []);
});

test('a title names what it is about, and hides nothing', () => {
  assert.equal(titleOf(finding('note', 'a')), 'It is so');
  assert.equal(titleOf(finding('note', 'a', { subject: '/m' })), '/m: it is so');
  assert.equal(titleOf(finding('note', 'a', { subject: '/m\ufffd', subject_encoded: '/m%0A',
    what: 'x\u202ey' })), '/m<U+000A>: x<U+202E>y');
});

test('a path that failed is that of its folder and its name', () => {
  const failed: PathError = {
    time: '2026-11-21T14:46:02Z', code: 'unavailable', mount: '/m', path: 'a\nb', reason: 'away',
  };
  assert.equal(pathOf(failed), '/m/a%0Ab');
  assert.equal(pathOf({ ...failed, path: '.' }), '/m');
});

test('passthrough that is missing is a finding unless a mount asked for that', () => {
  const mount = (change: Partial<Mount>) =>
    ({ own_fuse_mount: true, passthrough_off: '', ...change }) as Mount;
  assert.equal(passthroughMissing(mount({})), false);
  assert.equal(passthroughMissing(mount({ passthrough_off: 'overlayfs' })), true);
  assert.equal(passthroughMissing(mount({ passthrough_off: 'it was not requested' })), false);
  assert.equal(passthroughMissing(mount({ own_fuse_mount: false, passthrough_off: 'x' })), false);
});

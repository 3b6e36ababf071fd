// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ofEntry, ofTree } from './cached_share';

const sum = (files: number, bytes: number, cached: number, partial = false) =>
  ({ files, bytes, cached_bytes: cached, partial });

test('a tree says how much of what is known is cached', () => {
  assert.deepEqual(ofTree(sum(2, 2048, 1024)),
    { share: 0.5, text: '50 %', amounts: '1.0 KiB of 2.0 KiB' });
  assert.deepEqual(ofTree(sum(2, 2048, 1024, true)),
    { share: 0.5, text: '50 %, partial', amounts: '1.0 KiB of \u2265 2.0 KiB' });
  assert.equal(ofTree(sum(2, 0, 0)).text, '100 %');
});

test('what was not listed is unknown, and what is empty is empty', () => {
  assert.deepEqual(ofTree(sum(0, 0, 0, true)),
    { share: undefined, text: 'not listed yet', amounts: '' });
  assert.equal(ofTree(sum(0, 0, 0)).text, 'no files');
  assert.equal(ofTree(undefined).text, '\u2013');
});

test('a file is cached by its bytes', () => {
  assert.equal(ofEntry({ name: 'a', kind: 'file', size: 10, cached_bytes: 5 }).text, '50 %');
  assert.equal(ofEntry({ name: 'a', kind: 'file', size: 0, cached_bytes: 0 }).text, '100 %');
  assert.equal(ofEntry({ name: 'a', kind: 'file', size: 10 }).text, '\u2013');
  assert.equal(ofEntry({ name: 'a', kind: 'directory', below: sum(1, 4, 1) }).text, '25 %');
});

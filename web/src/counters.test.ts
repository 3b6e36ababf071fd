// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { growth, hitShare, originCounter, recent, series, total, trimmed } from './counters';
import type { Counters, Sample } from './counters';

const value = (counters: Counters) => counters['n'] ?? 0;

function sample(at: number, n: number, pid = 1): Sample {
  return { at, pid, counters: { n }, rss: 0, buffers: 0 };
}

test('a rate is growth over time, and of one daemon', () => {
  assert.equal(growth(sample(10, 100), sample(12, 300), value), 100);
  assert.equal(growth(sample(10, 100), sample(12, 300, 2), value), undefined);
  assert.equal(growth(sample(10, 100), sample(12, 50), value), undefined);
  assert.equal(growth(sample(10, 100), sample(10, 100), value), undefined);
  assert.equal(growth(undefined, sample(10, 100), value), undefined);
});

test('a gap, as of a page that was hidden, is a gap in the chart', () => {
  const samples = [sample(0, 0), sample(1, 10), sample(60, 70), sample(61, 90), sample(62, 5, 2)];
  assert.deepEqual(series(samples, value), [10, null, 20, null]);
  assert.deepEqual(series([], value), []);
});

test('the rate of the last seconds', () => {
  const samples = [sample(0, 0, 9), sample(1, 0), sample(3, 20), sample(5, 100)];
  assert.equal(recent(samples, 2, value), 40);
  assert.equal(recent(samples, 60, value), 25);
  assert.equal(recent([], 60, value), undefined);
});

test('the hit share counts bytes of stores, not files on local disks', () => {
  const counters = (memory: number, cache: number, source: number) => ({
    [originCounter('memory')]: memory, [originCounter('cache')]: cache,
    [originCounter('source')]: source, [originCounter('local_disk')]: 1e9,
  });
  assert.equal(hitShare(undefined, counters(1, 2, 1)), 0.75);
  assert.equal(hitShare(counters(1, 2, 1), counters(1, 2, 2)), 0);
  assert.equal(hitShare(counters(1, 2, 1), counters(1, 2, 1)), undefined);
  assert.equal(hitShare(undefined, {}), undefined);
});

test('sums go over labels and not over names that begin alike', () => {
  assert.equal(total({ 'a_total{x="1"}': 1, 'a_total{x="2"}': 2, a_total_more: 4, a_total: 8 },
    'a_total'), 11);
});

test('what is old is forgotten', () => {
  const samples = [sample(0, 0), sample(50, 0), sample(100, 0)];
  assert.deepEqual(trimmed(samples, 60, 10).map((one) => one.at), [50, 100]);
  assert.deepEqual(trimmed(samples, 600, 1).map((one) => one.at), [100]);
});

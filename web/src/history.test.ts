// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Sample } from './counters';
import { filled, samplesOf } from './history';

function sample(at: number): Sample {
  return { at, pid: 1, counters: {}, rss: 0, buffers: 0 };
}

test('the history of a daemon becomes samples by the clock of the page', () => {
  const samples = samplesOf({
    pid: 7, step_seconds: 5, ages_seconds: [10, 5],
    series: { a: [1, 2], process_resident_memory_bytes: [3, 4], leat_fetch_memory_bytes: [5, 6] },
  }, 1000);
  assert.deepEqual(samples.map((one) => one.at), [990, 995]);
  assert.deepEqual(samples.map((one) => [one.pid, one.rss, one.buffers, one.counters['a']]),
    [[7, 3, 5, 1], [7, 4, 6, 2]]);
  assert.deepEqual(samplesOf({ pid: 7, step_seconds: 5, ages_seconds: [], series: {} }, 0), []);
});

test('it fills what the page has not seen, before and in between', () => {
  const own = [sample(100), sample(101), sample(200), sample(201)];
  const daemons = [90, 95, 100, 105, 150, 198, 203, 206].map(sample);
  assert.deepEqual(filled(own, daemons).map((one) => one.at),
    [90, 95, 100, 101, 105, 150, 200, 201, 206]);
  assert.deepEqual(filled([], daemons).length, daemons.length);
  assert.deepEqual(filled(own, []).length, own.length);
});

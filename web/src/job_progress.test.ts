// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { countsBytes, endedAgo, JobRates, shareOf } from './job_progress';
import type { Job } from './types';

function job(change: Partial<Job>): Job {
  return {
    id: 1, kind: 'load', path: '/m', state: 'running', planned: true, files_total: 10,
    files_done: 0, files_failed: 0, bytes_total: 1000, bytes_done: 0, bytes_fetched: 0, seconds: 0,
    errors_total: 0, errors: [], ...change,
  };
}

test('a load counts bytes, its rate those of the last seconds', () => {
  const rates = new JobRates();
  rates.note(0, [job({})]);
  assert.equal(rates.of(job({})).bytesPerSecond, undefined);
  rates.note(2, [job({ bytes_done: 200 })]);
  rates.note(20, [job({ bytes_done: 300 })]);
  rates.note(22, [job({ bytes_done: 500 })]);
  const progress = rates.of(job({ bytes_done: 500 }));
  assert.equal(progress.bytesPerSecond, 100);
  assert.equal(progress.secondsLeft, 5);
  assert.equal(progress.share, 0.5);
});

test('nothing is promised before it is known how much there is', () => {
  const rates = new JobRates();
  const counting = job({ planned: false, bytes_done: 100 });
  rates.note(0, [job({ planned: false })]);
  rates.note(1, [counting]);
  assert.equal(rates.of(counting).share, undefined);
  assert.equal(rates.of(counting).secondsLeft, undefined);
  assert.equal(rates.of(counting).bytesPerSecond, 100);
});

test('a job that stands still, ended, or is of another daemon has no time left', () => {
  const rates = new JobRates();
  rates.note(0, [job({ bytes_done: 500 })]);
  rates.note(2, [job({ bytes_done: 500 })]);
  assert.equal(rates.of(job({ bytes_done: 500 })).secondsLeft, undefined);
  rates.note(3, [job({ bytes_done: 10 })]);
  assert.equal(rates.of(job({ bytes_done: 10 })).bytesPerSecond, undefined);
  rates.note(4, []);
  assert.equal(rates.of(job({})).bytesPerSecond, undefined);
});

test('a job that ended did so its duration after it began', () => {
  const at = Date.parse('2026-11-21T14:50:00Z') / 1000;
  const ended = job({ started: '2026-11-21T14:40:00.5Z', seconds: 120 });
  assert.equal(endedAgo(ended, at), 479.5);
  assert.equal(endedAgo(job({}), at), undefined);
  assert.equal(countsBytes(job({ kind: 'copy' })), true);
  assert.equal(countsBytes(job({ kind: 'free' })), false);
});

test('a free counts files', () => {
  assert.equal(shareOf(job({ kind: 'free', files_done: 5, bytes_done: 1 })), 0.5);
  assert.equal(shareOf(job({ state: 'done', bytes_total: 0, files_total: 0 })), 1);
  assert.equal(shareOf(job({ bytes_done: 2000 })), 1);
});

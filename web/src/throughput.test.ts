// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Sample } from './counters';
import { folderCounter, folderRate, kernelNote, kernelReads, loaded, PASSTHROUGH_OPENS,
  programRate } from './throughput';
import type { Mount } from './types';

const mount = (files: number) => ({ passthrough_files: files }) as Mount;

function opened(at: number, opens: number): Sample {
  return { at, pid: 1, counters: { [PASSTHROUGH_OPENS]: opens }, rss: 0, buffers: 0 };
}

test('a rate of nothing is not counted while the kernel reads', () => {
  assert.equal(programRate(0, true), 'not counted');
  assert.equal(programRate(undefined, true), 'not counted');
  assert.equal(programRate(0, false), '0 B/s');
  assert.equal(programRate(1024, true), '1.0 KiB/s');
});

test('the kernel reads files that are open or were just opened', () => {
  assert.equal(kernelReads([mount(0), mount(2)], [], 5), true);
  assert.equal(kernelReads([mount(0)], [opened(0, 1), opened(5, 1)], 5), false);
  assert.equal(kernelReads([mount(0)], [opened(0, 1), opened(5, 4)], 5), true);
  assert.equal(kernelReads([], [opened(0, 1), opened(50, 4), opened(55, 4)], 5), false);
});

test('what is not counted says how many files that are', () => {
  assert.equal(kernelNote(0), 'by the kernel itself: not counted');
  assert.equal(kernelNote(1), 'by the kernel itself: 1 open file, not counted');
  assert.equal(kernelNote(1200), 'by the kernel itself: 1,200 open files, not counted');
});

test('a mount has the rate of its own reads', () => {
  const sample = (at: number, counters: Record<string, number>): Sample =>
    ({ at, pid: 1, counters, rss: 0, buffers: 0 });
  const name = 'n{folder="/a \\"b\\"\\\\\\n"}';
  assert.equal(folderCounter('n', '/a "b"\\\n'), name);
  const samples = [sample(0, {}), sample(5, { [name]: 100 }), sample(7, { [name]: 300 })];
  assert.equal(folderRate(samples, 10, 'n', '/a "b"\\\n'), 100);
  assert.equal(folderRate(samples, 10, 'n', '/other'), undefined);
});

test('what is loaded comes from stores, for whomever', () => {
  const counters = { leat_fetch_source_bytes_total: 7, 'leat_fetch_bytes_total{origin="x"}': 1 };
  assert.equal(loaded(counters), 7);
  assert.equal(loaded({}), 0);
});

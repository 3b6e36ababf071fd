// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as format from './format';

test('sizes are powers of 1024', () => {
  assert.equal(format.bytes(0), '0 B');
  assert.equal(format.bytes(1023), '1023 B');
  assert.equal(format.bytes(1536), '1.5 KiB');
  assert.equal(format.bytes(1024 * 1024 - 1), '1.0 MiB');
  assert.equal(format.bytes(5 * 1024 ** 4), '5.0 TiB');
  assert.equal(format.bytes(undefined), '\u2013');
  assert.equal(format.bytes(NaN), '\u2013');
  assert.equal(format.byteRate(2048), '2.0 KiB/s');
});

test('shares are rounded down: 100 % is all', () => {
  assert.equal(format.share(0), '0 %');
  assert.equal(format.share(0.001), '<1 %');
  assert.equal(format.share(0.999), '99 %');
  assert.equal(format.share(0.29), '29 %');
  assert.equal(format.share(1), '100 %');
  assert.equal(format.share(undefined), '\u2013');
});

test('counts, rates and times', () => {
  assert.equal(format.count(1234567), '1,234,567');
  assert.equal(format.rate(0), '0');
  assert.equal(format.rate(2.345), '2.3');
  assert.equal(format.rate(234.5), '235');
  assert.equal(format.duration(0.01), '<0.1 s');
  assert.equal(format.duration(3.14), '3.1 s');
  assert.equal(format.duration(185), '3 min 5 s');
  assert.equal(format.duration(7200), '2 h');
  assert.equal(format.duration(446400), '5 d 4 h');
  assert.equal(format.duration(Infinity), '\u2013');
  assert.equal(format.time('2026-11-21T14:45:56.2Z'), '2026-11-21 14:45:56');
  assert.equal(format.time(undefined), '\u2013');
});

test('ages have one unit', () => {
  assert.equal(format.age(-3), '0 s ago');
  assert.equal(format.age(59.9), '59 s ago');
  assert.equal(format.age(3000), '50 min ago');
  assert.equal(format.age(5999), '99 min ago');
  assert.equal(format.age(6000), '1 h ago');
  assert.equal(format.age(300000), '3 d ago');
  assert.equal(format.age(undefined), '\u2013');
});

test('dollars', () => {
  assert.equal(format.dollars(0), '$0');
  assert.equal(format.dollars(1234.5), '$1,234.50');
  assert.equal(format.dollars(0.0042), '$0.0042');
  assert.equal(format.dollars(0.00042), '$0.00042');
  assert.equal(format.dollars(1e-9), '<$0.000001');
});

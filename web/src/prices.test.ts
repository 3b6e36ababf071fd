// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { estimate, LISTS, parsePrice, parsePrices, suggestedList } from './prices';
import type { Prices } from './prices';

const prices: Prices = {
  name: 'own', per1000: { read: 1, list: 10, stat: 2, write: 20, remove: 0 }, perGiB: 5,
};

test('an estimate is requests times prices, with those that were sent again', () => {
  const cost = estimate({
    'leat_source_requests_total{store_op="read"}': 3000,
    'leat_source_requests_total{store_op="list"}': 100,
    'leat_source_retries_total{reason="unavailable"}': 500,
    'leat_source_retries_total{reason="timeout"}': 500,
    leat_source_bytes_total: 2 * 1024 ** 3,
  }, prices);
  assert.equal(cost.operations.find((one) => one.operation === 'read')?.cost, 3);
  assert.equal(cost.retries.cost, 1);
  assert.equal(cost.transfer.cost, 10);
  assert.equal(cost.total, 3 + 1 + 1 + 10);
  assert.equal(estimate({}, prices).total, 0);
});

test('what was kept is taken only if it is prices', () => {
  assert.deepEqual(parsePrices(JSON.stringify(prices)), prices);
  for (const text of [null, '', '{', 'null', '[]', '{"name":1}',
    JSON.stringify({ ...prices, perGiB: -1 }),
    JSON.stringify({ ...prices, per1000: { read: 1 } })]) {
    assert.equal(parsePrices(text), undefined, String(text));
  }
});

test('a price is a number that is not negative', () => {
  assert.equal(parsePrice(' 0.0004 '), 0.0004);
  assert.equal(parsePrice('0'), 0);
  for (const text of ['', '-1', '1,5', 'free', 'NaN', 'Infinity', '1e9']) {
    assert.equal(parsePrice(text), undefined, text);
  }
});

test('the list of the store that most mounts are of', () => {
  assert.equal(suggestedList(['gs://a/', 's3://b/', 'gs://c/']), 'gcs');
  assert.equal(suggestedList(['abfs://a/']), 'azure');
  assert.equal(suggestedList(['file:///data/']), 'none');
  assert.equal(suggestedList([]), 'none');
  assert.ok(Object.values(LISTS).every((list) => parsePrices(JSON.stringify(list))));
});

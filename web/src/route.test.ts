// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { browseLink, parseRoute } from './route';
import { tokenIn } from './token';

test('an address names a page, and a path where there is one', () => {
  assert.deepEqual(parseRoute(''), { page: 'overview', path: '/' });
  assert.deepEqual(parseRoute('#/jobs'), { page: 'jobs', path: '/' });
  for (const hash of ['#/nothing', '#/nothing/mnt', '#/jobs2', '#x', '#/Jobs']) {
    assert.deepEqual(parseRoute(hash), { page: 'unknown', path: '/' }, hash);
  }
  for (const hash of ['', '#', '#/']) {
    assert.deepEqual(parseRoute(hash), { page: 'overview', path: '/' }, hash);
  }
  assert.deepEqual(parseRoute('#/browse'), { page: 'browse', path: '/' });
  assert.deepEqual(parseRoute('#/browse/'), { page: 'browse', path: '/' });
  assert.deepEqual(parseRoute('#/browse/mnt/a%FF%23/'), { page: 'browse', path: '/mnt/a%FF%23' });
  assert.deepEqual(parseRoute('#/jobs/mnt'), { page: 'jobs', path: '/' });
  assert.equal(parseRoute(browseLink('/mnt/x')).path, '/mnt/x');
});

test('a token is 64 hexadecimal digits, alone or in an address', () => {
  const token = '0123456789abcdef'.repeat(4);
  assert.equal(tokenIn(token), token);
  assert.equal(tokenIn(` http://127.0.0.1:9464/#token=${token}\n`), token);
  assert.equal(tokenIn(`#token=${token}`), token);
  for (const text of ['', '#', 'token=', token.slice(1), `${token}0`, token.toUpperCase(),
    `#/browse/token=${token}x`]) {
    assert.equal(tokenIn(text), undefined, text);
  }
});

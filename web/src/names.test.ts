// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { crumbs, joined, pieces, shown, textOf, toWire, visible, wireOf } from './names';

test('what is invisible or reorders is shown for what it is', () => {
  assert.equal(visible('a\nb\u0000'), 'a<U+000A>b<U+0000>');
  assert.equal(visible('\u007f'), '<U+007F>');
  assert.equal(visible('gpj.\u202etxt'), 'gpj.<U+202E>txt');
  assert.equal(visible('a\u200bb\ufeff'), 'a<U+200B>b<U+FEFF>');
  assert.equal(visible('<b>&amp; \u00e4\u6f22\ud83d\ude00'), '<b>&amp; \u00e4\u6f22\ud83d\ude00');
});

test('a mark can be told from a name that looks like one', () => {
  assert.deepEqual(pieces('%0A<U+000A>%E2%80%AEx'), [
    { text: '<U+000A>', hidden: true }, { text: '<U+000A>', hidden: false },
    { text: '<U+202E>', hidden: true }, { text: 'x', hidden: false }]);
  assert.deepEqual(pieces(''), []);
});

test('bytes survive the way through the page, whatever they are', () => {
  assert.equal(shown('a%FF%FEb'), 'a\ufffd\ufffdb');
  assert.equal(wireOf({ name: 'a\ufffdb', name_encoded: 'a%FFb' }, 'name'), 'a%FFb');
  assert.equal(wireOf({ name: '100% a/b?#&+' }, 'name'), '100%25%20a/b%3F%23%26%2B');
  assert.equal(wireOf({ path: '' }, 'path'), '');
  for (const text of ['/mnt/\u00e4 b', '/a%20b', '/%', '/\ud83d\ude00', "/it's (1)*!~"]) {
    assert.equal(textOf(toWire(text)), text);
  }
});

test('text that is none becomes what can be sent', () => {
  assert.equal(textOf(toWire('a\ud800b')), 'a\ufffdb');
  assert.equal(textOf('50%'), '50%');
  assert.equal(textOf('%zz%4'), '%zz%4');
});

test('crumbs lead to each folder above', () => {
  assert.deepEqual(crumbs('/', ['/mnt/a']), [{ name: 'Mounts', path: '/' }]);
  assert.deepEqual(crumbs('/mnt/a%20b', []), [
    { name: 'Mounts', path: '/' }, { name: 'mnt', path: '/mnt' },
    { name: 'a%20b', path: '/mnt/a%20b' }]);
  assert.deepEqual(crumbs('/mnt/a/in/x', ['/mnt/a/in', '/mnt/a', '/mnt/a/i', '/mnt/b']), [
    { name: 'Mounts', path: '/' }, { name: '/mnt/a', path: '/mnt/a' },
    { name: 'in', path: '/mnt/a/in' }, { name: 'x', path: '/mnt/a/in/x' }]);
  assert.deepEqual(crumbs('/mnt/ab', ['/mnt/a']).map((one) => one.name), ['Mounts', 'mnt', 'ab']);
  assert.equal(joined('/', 'mnt'), '/mnt');
  assert.equal(joined('/mnt', 'a%20b'), '/mnt/a%20b');
});

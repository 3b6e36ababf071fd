// SPDX-License-Identifier: Apache-2.0
// What the tests use of node, so that its types need not be installed.
declare module 'node:test' {
  export function test(name: string, body: () => void): void;
}
declare module 'node:assert/strict' {
  interface Assert {
    equal(actual: unknown, expected: unknown, message?: string): void;
    deepEqual(actual: unknown, expected: unknown, message?: string): void;
    match(actual: string, expected: RegExp): void;
    ok(value: unknown): void;
  }
  const assert: Assert;
  export default assert;
}

// SPDX-License-Identifier: Apache-2.0
// What somebody may have to act on. The daemon makes these words, for `leat doctor` as well; here is
// only how they are shown.
import { joined, shown, visible, wireOf } from './names';
import type { Finding, Mount, PathError } from './types';

/** Without those that are fine, problems first. */
export function toShow(findings: readonly Finding[]): Finding[] {
  return [...findings.filter((one) => one.level === 'problem'),
    ...findings.filter((one) => one.level === 'note')];
}

/** "/mnt/train: writes to 3 paths were refused, the last 50 min ago: a/b" */
export function titleOf(finding: Finding): string {
  const subject = shown(wireOf(finding, 'subject'));
  const what = visible(finding.what);
  return subject === '' ? `${what.charAt(0).toUpperCase()}${what.slice(1)}` : `${subject}: ${what}`;
}

/** Whole, in wire form. */
export function pathOf(error: PathError): string {
  const mount = wireOf(error, 'mount');
  const path = wireOf(error, 'path');
  return path === '.' ? mount : joined(mount, path);
}

// What a mount asked for itself is no finding.
const WANTED = ['it was not asked for', 'opens are left out (no_open)'];

export function passthroughMissing(mount: Mount): boolean {
  return mount.door && mount.passthrough_off !== '' && !WANTED.includes(mount.passthrough_off);
}

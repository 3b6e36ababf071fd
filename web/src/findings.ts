// SPDX-License-Identifier: Apache-2.0
// Findings: conditions that may need action. The daemon makes the words, for `leat doctor` as well;
// this file only orders and titles them.
import { joined, shown, visible, wireOf } from './names';
import type { Finding, Mount, PathError } from './types';

/** Without those that are fine, problems first. */
export function toShow(findings: readonly Finding[]): Finding[] {
  return [...findings.filter((one) => one.level === 'problem'),
    ...findings.filter((one) => one.level === 'note')];
}

export const sentence = (text: string) => {
  const seen = visible(text);
  return `${seen.charAt(0).toUpperCase()}${seen.slice(1)}`;
};

/** "/mnt/train: writes to 3 paths were rejected, the last 50 min ago (a/b)" */
export function titleOf(finding: Finding): string {
  const subject = shown(wireOf(finding, 'subject'));
  return subject === '' ? sentence(finding.what) : `${subject}: ${visible(finding.what)}`;
}

/** Whole, in wire form. */
export function pathOf(error: PathError): string {
  const mount = wireOf(error, 'mount');
  const path = wireOf(error, 'path');
  return path === '.' ? mount : joined(mount, path);
}

// What a mount asked for itself is no finding.
const WANTED = ['it was not requested', 'opens are disabled (no_open)'];

export function passthroughMissing(mount: Mount): boolean {
  return mount.own_fuse_mount && mount.passthrough_off !== '' &&
    !WANTED.includes(mount.passthrough_off);
}

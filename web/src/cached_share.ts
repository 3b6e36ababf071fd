// SPDX-License-Identifier: Apache-2.0
// The cached share of a file or of what is below a directory, in words.
import * as format from './format';
import type { Entry, TreeSum } from './types';

export interface CachedShare {
  /** 0 to 1; undefined where nothing is known. */
  share: number | undefined;
  /** "35 %", "35 %, partial", "not listed yet" */
  text: string;
  /** "1.2 GiB of 3.4 GiB"; empty where nothing is known. */
  amounts: string;
}

/** `partial` sums are of the names that the daemon has: the share is of these. */
export function ofTree(sum: TreeSum | undefined): CachedShare {
  if (!sum) return { share: undefined, text: format.NOTHING, amounts: '' };
  if (sum.files === 0) {
    const text = sum.partial ? 'not listed yet' : 'no files';
    return { share: undefined, text, amounts: '' };
  }
  // Files of no bytes are as cached as they can be.
  const share = sum.bytes === 0 ? 1 : Math.min(1, sum.cached_bytes / sum.bytes);
  return {
    share, text: sum.partial ? `${format.share(share)}, partial` : format.share(share),
    amounts: `${format.bytes(sum.cached_bytes)} of ${sum.partial ? '\u2265 ' : ''}${
      format.bytes(sum.bytes)}`,
  };
}

export function ofEntry(entry: Entry): CachedShare {
  if (entry.kind === 'directory') return ofTree(entry.below);
  if (entry.cached_bytes === undefined || entry.size === undefined) return ofTree(undefined);
  const share = entry.size === 0 ? 1 : entry.cached_bytes / entry.size;
  return { share, text: format.share(share), amounts: format.bytes(entry.cached_bytes) };
}

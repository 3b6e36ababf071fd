// SPDX-License-Identifier: Apache-2.0
// Names of files are bytes, and whoever writes to a store chooses them. Inside the page a path is
// in its *wire* form: percent-encoded bytes, as the daemon's `path_encoded` and its queries have
// it. What is shown is made of it by `shown`, in which nothing is invisible or reorders what is
// beside it.

const decoder = new TextDecoder('utf-8', { fatal: false });

// C0, DEL and C1 controls; separators that break lines; marks that reorder or join text.
const HIDDEN = new RegExp('[\\u0000-\\u001f\\u007f-\\u009f\\u00ad\\u061c\\u200b-\\u200f' +
  '\\u2028-\\u202e\\u2060-\\u206f\\ufeff\\ufff9-\\ufffb]', 'g');

function numbered(mark: string): string {
  return `<U+${mark.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')}>`;
}

/** Text as it can be shown, what is invisible by number: by numbers every font can. */
export function visible(text: string): string {
  return text.replace(HIDDEN, numbered);
}

export interface Piece { text: string; hidden: boolean; }

/** The same in pieces, so that a number can be told from a name that holds such a text. */
export function pieces(wire: string): Piece[] {
  const text = textOf(wire);
  const found: Piece[] = [];
  let done = 0;
  for (const match of text.matchAll(HIDDEN)) {
    if (match.index > done) found.push({ text: text.slice(done, match.index), hidden: false });
    found.push({ text: numbered(match[0]), hidden: true });
    done = match.index + 1;
  }
  if (done < text.length) found.push({ text: text.slice(done), hidden: false });
  return found;
}

/** The bytes of a wire form. A broken escape stands for itself. */
function bytesOf(wire: string): Uint8Array {
  const plain = new TextEncoder().encode(wire);
  const bytes: number[] = [];
  for (let i = 0; i < plain.length; i += 1) {
    const byte = plain[i] as number;
    const digits = byte === 0x25 ? wireDigits(plain, i) : undefined;
    bytes.push(digits ?? byte);
    if (digits !== undefined) i += 2;
  }
  return Uint8Array.from(bytes);
}

function wireDigits(bytes: Uint8Array, at: number): number | undefined {
  const text = String.fromCharCode(bytes[at + 1] ?? 0, bytes[at + 2] ?? 0);
  return /^[0-9a-fA-F]{2}$/.test(text) ? parseInt(text, 16) : undefined;
}

/** Text in wire form; slashes stay. What is no text (half a surrogate pair) becomes U+FFFD. */
export function toWire(text: string): string {
  // encodeURIComponent leaves !'()* alone, which need no escape in a query or after '#'.
  return encodeURIComponent(text.replace(LONE, '\ufffd')).replace(/%2F/g, '/');
}

const LONE = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

/** Text of a wire form, with U+FFFD where it is no UTF-8. */
export function textOf(wire: string): string {
  return decoder.decode(bytesOf(wire));
}

export function shown(wire: string): string {
  return visible(textOf(wire));
}

/** The member `name` of an object of the daemon in wire form: `name_encoded` wins. */
export function wireOf<K extends string>(
  object: { [P in K]?: string } & { [P in `${K}_encoded`]?: string }, name: K): string {
  const encoded = object[`${name}_encoded` as `${K}_encoded`] as string | undefined;
  return encoded ?? toWire((object[name] as string | undefined) ?? '');
}

/** A path with one more name, both in wire form. */
export function joined(directory: string, name: string): string {
  return directory === '/' || directory === '' ? `/${name}` : `${directory}/${name}`;
}

export interface Crumb { name: string; path: string; }

/** "/mnt/train/a" → "Mounts", "/mnt/train", "a", each with its path; all in wire form. A path above
 * all mounts begins at "/". */
export function crumbs(path: string, mounts: readonly string[]): Crumb[] {
  const around = mounts.filter((one) => path === one || path.startsWith(`${one}/`))
    .sort((one, other) => one.length - other.length)[0];
  const found: Crumb[] = [{ name: 'Mounts', path: '/' }];
  let whole = around ?? '';
  if (around !== undefined) found.push({ name: around, path: around });
  for (const part of path.slice(whole.length).split('/').filter((name) => name !== '')) {
    whole = `${whole}/${part}`;
    found.push({ name: part, path: whole });
  }
  return found;
}

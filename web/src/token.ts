// SPDX-License-Identifier: Apache-2.0
// The token comes behind '#', which no server and no log sees, and is kept for as long as the tab
// lives. It is taken out of the address at once.

const KEY = 'leat.token';

/** The token in what a person pasted: the address that `leat console` prints, or it alone. */
export function tokenIn(text: string): string | undefined {
  return /(?:^|[#&]token=)([0-9a-f]{64})\s*$/.exec(text.trim())?.[1];
}

export function takeToken(): boolean {
  const given = tokenIn(window.location.hash);
  if (!given) return false;
  keepToken(given);
  window.history.replaceState(null, '', '#/overview');
  return true;
}

// Where the browser keeps nothing, it is kept until the page is loaded anew.
let kept = '';

export function keepToken(given: string): void {
  kept = given;
  try {
    window.sessionStorage.setItem(KEY, given);
  } catch {
    // Not allowed by the browser's settings.
  }
}

export function token(): string {
  try {
    kept = window.sessionStorage.getItem(KEY) ?? kept;
  } catch {
    // As above.
  }
  return kept;
}

// SPDX-License-Identifier: Apache-2.0
// The token comes behind '#', which no server and no log sees, and is kept for as long as the tab
// lives. It is taken out of the address at once.

const KEY = 'leat.token';

/** The token in what a person pasted: the address that `leat console` prints, or it alone. */
export function tokenIn(text: string): string | undefined {
  return /(?:^|[#&]token=)([0-9a-f]{64})\s*$/.exec(text.trim())?.[1];
}

export function takeToken(): boolean {
  const token = tokenIn(window.location.hash);
  if (!token) return false;
  keepToken(token);
  window.history.replaceState(null, '', '#/overview');
  return true;
}

export function keepToken(token: string): void {
  window.sessionStorage.setItem(KEY, token);
}

export function token(): string {
  return window.sessionStorage.getItem(KEY) ?? '';
}

// SPDX-License-Identifier: Apache-2.0
// Requests to the daemon, and whether it answers: what every page and the frame around them share.
import { token } from './token';

export class Failure extends Error {
  constructor(readonly code: string, message: string) { super(message); }
}

/** `denied`: it answers, but not with this token. */
export type LinkState = 'asking' | 'up' | 'lost' | 'denied';

let link: LinkState = 'asking';
const listeners = new Set<(state: LinkState) => void>();

export function linkState(): LinkState { return link; }

export function onLink(listener: (state: LinkState) => void): () => void {
  listeners.add(listener);
  return () => { listeners.delete(listener); };
}

export function setLink(state: LinkState): void {
  if (state === link) return;
  link = state;
  for (const listener of listeners) listener(state);
}

// A listing may have to be asked of a store; the daemon itself gives up in time.
const PATIENCE_MS = 60_000;
// What only looks at the daemon's memory.
export const QUICK_MS = 8_000;

export async function ask<T>(method: string, target: string, body?: unknown,
  patience = PATIENCE_MS): Promise<T> {
  const aborted = new AbortController();
  const timer = window.setTimeout(() => aborted.abort(), patience);
  try {
    const answer = await fetch(target, {
      method, signal: aborted.signal, cache: 'no-store', credentials: 'omit', redirect: 'error',
      headers: { Authorization: `Bearer ${token()}` },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const document: unknown = await answer.json();
    setLink(answer.status === 401 ? 'denied' : 'up');
    if (answer.ok) return document as T;
    throw failureOf(document, answer.status);
  } catch (reason) {
    if (reason instanceof Failure) throw reason;
    // No answer, or none of a daemon's.
    setLink('lost');
    throw new Failure('unavailable', `no daemon answers at ${window.location.host}`);
  } finally {
    window.clearTimeout(timer);
  }
}

function failureOf(document: unknown, status: number): Failure {
  const error = (document as { error?: { code?: unknown; message?: unknown } } | null)?.error;
  if (typeof error?.code === 'string' && typeof error.message === 'string') {
    return new Failure(error.code, error.message);
  }
  return new Failure('internal', `the daemon answered ${status} without saying why`);
}

export function asFailure(reason: unknown): Failure {
  return reason instanceof Failure ? reason : new Failure('internal', String(reason));
}

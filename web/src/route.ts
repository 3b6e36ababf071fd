// SPDX-License-Identifier: Apache-2.0
// The page that the address names: "#/browse/mnt/train". Paths are in wire form (names.ts).
import { useEffect, useState } from 'preact/hooks';

export const PAGES =
  ['overview', 'mounts', 'cache', 'jobs', 'browse', 'requests', 'health'] as const;
export type Page = (typeof PAGES)[number];

export const TITLES: Record<Page | 'unknown', string> = {
  overview: 'Overview', mounts: 'Mounts', cache: 'Cache', jobs: 'Jobs', browse: 'Browse',
  requests: 'Store requests', health: 'Health', unknown: 'No such page',
};

/** `unknown`: the address names no page of the console. */
export interface Route { page: Page | 'unknown'; path: string; }

export function parseRoute(hash: string): Route {
  const match = /^#\/([a-z]+)(\/.*)?$/.exec(hash);
  const asked = hash.replace(/^#\/?/, '');
  const page = PAGES.find((one) => one === match?.[1]) ?? (asked === '' ? 'overview' : 'unknown');
  const path = (page === 'browse' && match?.[2]) || '/';
  return { page, path: path.length > 1 ? path.replace(/\/+$/, '') || '/' : path };
}

export const pageLink = (page: Page) => `#/${page}`;
export const browseLink = (path: string) => (path === '/' ? '#/browse' : `#/browse${path}`);

export function useRoute(): Route {
  const [hash, setHash] = useState(window.location.hash);
  useEffect(() => {
    const changed = () => setHash(window.location.hash);
    window.addEventListener('hashchange', changed);
    return () => window.removeEventListener('hashchange', changed);
  }, []);
  return parseRoute(hash);
}

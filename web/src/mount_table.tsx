// SPDX-License-Identifier: Apache-2.0
// The mounts as rows: throughput, cached share and read errors of each.
import { useEffect, useState } from 'preact/hooks';
import { ask, QUICK_MS } from './api';
import { ofTree } from './cached_share';
import { history } from './feed';
import * as format from './format';
import { shown, wireOf } from './names';
import { Cached, PathLink, Table, Tag } from './parts';
import type { Column, Row } from './parts';
import { FOLDER_BYTES, FOLDER_ERRORS, folderCounter, folderRate, programRate } from './throughput';
import type { Mount, Status, TreeSum } from './types';

const NOW_SECONDS = 5;
const SUMS_MS = 15_000;

/** Sums of what is cached of each mount, from the daemon's memory; asked every 15 s. */
function useSums(paths: readonly string[]): ReadonlyMap<string, TreeSum> {
  const [sums, setSums] = useState<ReadonlyMap<string, TreeSum>>(new Map());
  const all = paths.join('\n');
  useEffect(() => {
    let wanted = true;
    let timer = 0;
    const look = async () => {
      for (const path of document.hidden || all === '' ? [] : all.split('\n')) {
        try {
          const sum = await ask<TreeSum>('GET', `/v1/below?path=${path}`, undefined, QUICK_MS);
          if (!wanted) return;
          setSums((known) => new Map(known).set(path, sum));
        } catch {
          // It is shown as not known; that the daemon does not answer the frame says.
        }
      }
      if (wanted) timer = window.setTimeout(() => void look(), SUMS_MS);
    };
    void look();
    return () => {
      wanted = false;
      window.clearTimeout(timer);
    };
  }, [all]);
  return sums;
}

function Programs(props: { mount: Mount }) {
  const { mount } = props;
  const samples = history();
  const files = mount.passthrough_files;
  const rate = folderRate(samples, NOW_SECONDS, FOLDER_BYTES, mount.path);
  return (
    <>
      {programRate(rate, files > 0)}
      {files > 0 && <small>{format.count(files)} {files === 1 ? 'file' : 'files'} by the kernel
        itself</small>}
    </>
  );
}

function Errors(props: { mount: Mount; counters: Status['counters'] }) {
  const { mount, counters } = props;
  const count = counters[folderCounter(FOLDER_ERRORS, mount.path)] ?? 0;
  if (count === 0) return <>none</>;
  const rate = folderRate(history(), NOW_SECONDS, FOLDER_ERRORS, mount.path) ?? 0;
  return (
    <>
      <a href="#/health" class={rate > 0 ? 'bad' : ''}>{format.count(count)}</a>
      {rate > 0 && <small class="bad">{format.rate(rate)}/s now</small>}
    </>
  );
}

function rowOf(mount: Mount, sum: TreeSum | undefined, counters: Status['counters']): Row {
  const path = wireOf(mount, 'path');
  return { key: path, cells: [
    <><PathLink path={path} />{!mount.own_fuse_mount && <>{' '}<Tag>nested</Tag></>}</>,
    mount.own_fuse_mount ? <Programs mount={mount} />
      : <span class="muted">in the mount around it</span>,
    <Cached share={ofTree(sum)} of={shown(path)} />,
    mount.own_fuse_mount ? <Errors mount={mount} counters={counters} /> : format.NOTHING,
    <bdi class="name">{shown(wireOf(mount, 'source'))}</bdi>,
  ] };
}

const COLUMNS: Column[] = [
  { title: 'Mount' }, { title: 'To programs', number: true }, { title: 'Cached' },
  { title: 'Read errors', number: true }, { title: 'Source' }];

/** Needs the live status: rates are of its samples. */
export function MountTable(props: { status: Status }) {
  const { status } = props;
  const sums = useSums(status.mounts.map((mount) => wireOf(mount, 'path')));
  if (status.mounts.length === 0) {
    return <p class="empty">Nothing is mounted. On the host, <code>leat mount SOURCE DIR</code>{' '}
      shows a store as a folder.</p>;
  }
  const partial = [...sums.values()].some((sum) => sum.partial && sum.files > 0);
  return (
    <>
      <Table label="Mounts in use" columns={COLUMNS} rows={status.mounts.map((mount) =>
        rowOf(mount, sums.get(wireOf(mount, 'path')), status.counters))} />
      {partial && <p class="hint">Partial: of the names that the daemon has listed so far; it sends
        no request to a store for this, and reads at most 10,000 names.</p>}
    </>
  );
}

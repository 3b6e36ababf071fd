// SPDX-License-Identifier: Apache-2.0
// The cache: its directories, and whose bytes are in it.
import { useStatus } from './feed';
import * as format from './format';
import { shown, wireOf } from './names';
import { Bar, FailureNote, Name, Panel, Table, Tag, Tile } from './parts';
import type { Column, Row } from './parts';
import type { CacheDirectory, Pool } from './types';

const TONES: Record<string, string> = { normal: 'ok', unstable: 'warn', down: 'bad' };

function ratio(part: number, whole: number): number | undefined {
  return whole > 0 ? part / whole : undefined;
}

function directoryRow(one: CacheDirectory): Row {
  const path = wireOf(one, 'path');
  const fill = ratio(one.used_bytes, one.capacity_bytes);
  return { key: path, cells: [
    <><Name wire={path} />{one.why && <p class="why"><bdi>{one.why}</bdi></p>}</>,
    <Tag tone={TONES[one.state] ?? ''}>{one.state}</Tag>,
    <><Bar label={`Fill of ${shown(path)}`} share={fill} /> {format.share(fill)}</>,
    format.bytes(one.used_bytes), format.bytes(one.capacity_bytes), format.count(one.files),
    format.count(one.packed_objects), format.bytes(one.evicted_bytes),
  ] };
}

function poolRow(pool: Pool, capacity: number): Row {
  const path = wireOf(pool, 'mount');
  const name = path === '' ? 'unmounted mounts' : shown(path);
  return { key: pool.id, cells: [
    path === '' ? <span class="muted">{name}</span> : <Name wire={path} />,
    <Bar label={`Share of ${name}`} share={ratio(pool.used_bytes, capacity)}
      {...(pool.quota_bytes ? { mark: pool.quota_bytes / (capacity || 1) } : {})} />,
    format.bytes(pool.used_bytes),
    pool.quota_bytes > 0
      ? <>{format.bytes(pool.quota_bytes)} ({
        format.share(ratio(pool.used_bytes, pool.quota_bytes))})</>
      : format.NOTHING,
    <>
      {pool.pinned && <Tag tone="ok">pinned</Tag>}{' '}
      {pool.priority !== 'normal' && <Tag>{pool.priority} priority</Tag>}{' '}
      {pool.cyclic && <Tag>read by epochs</Tag>}{' '}
      {pool.ttl_seconds > 0 && <Tag>ttl {format.duration(pool.ttl_seconds)}</Tag>}
    </>,
    format.bytes(pool.unlinked_bytes),
  ] };
}

const DIRECTORY_COLUMNS: Column[] = [
  { title: 'Directory' }, { title: 'State' }, { title: 'Fill' }, { title: 'Used', number: true },
  { title: 'Capacity', number: true }, { title: 'Files', number: true },
  { title: 'Packed', number: true }, { title: 'Evicted', number: true }];
const POOL_COLUMNS: Column[] = [
  { title: 'Mount' }, { title: 'Share of the cache' }, { title: 'Used', number: true },
  { title: 'Quota', number: true }, { title: 'Policy' },
  { title: 'Held by open files', number: true }];

export function CachePage() {
  const { value: status, failure } = useStatus();
  if (!status) return <FailureNote failure={failure} doing="Asking for the cache" />;
  const { cache } = status;
  const pools = [...cache.pools].sort((one, other) => other.used_bytes - one.used_bytes);
  const fill = ratio(cache.used_bytes, cache.capacity_bytes);
  return (
    <>
      <dl class="tiles">
        <Tile label="Used" value={format.bytes(cache.used_bytes)} detail={
          <><Bar label="Cache fill" share={fill} />{format.share(fill)} of {
            format.bytes(cache.capacity_bytes)}</>} />
        <Tile label="Objects" value={format.count(cache.files + cache.packed_objects)}
          detail={`${format.count(cache.packed_objects)} packed in ${
            format.count(cache.segments)} segments`} />
        <Tile label="Evicted" value={format.bytes(cache.evicted_bytes)} detail="since the start" />
        <Tile label="Not cached: no space"
          value={format.bytes(cache.admission_rejected_bytes)}
          detail="since the start" />
        <Tile label="Corrupt blocks" value={format.count(cache.corrupt_blocks)}
          detail="removed and fetched again" />
      </dl>
      <Panel title="Directories" wide>
        <Table label="Cache directories" columns={DIRECTORY_COLUMNS}
          rows={cache.directories.map(directoryRow)} />
      </Panel>
      <Panel title="Whose bytes they are" wide>
        {pools.length === 0 ? <p class="empty">Nothing is cached yet.</p> : (
          <Table label="Cached bytes by mount" columns={POOL_COLUMNS}
            rows={pools.map((pool) => poolRow(pool, cache.capacity_bytes))} />
        )}
      </Panel>
    </>
  );
}

// SPDX-License-Identifier: Apache-2.0
// The cache: its directories, and whose bytes are in it.
import { useStatus } from './feed';
import * as format from './format';
import { shown, wireOf } from './names';
import { Bar, FailureNote, Name, Panel, Table, Tag, Tile } from './parts';
import type { CacheDirectory, Pool, Status } from './types';

const TONES: Record<string, string> = { normal: 'ok', unstable: 'warn', down: 'bad' };

function ratio(part: number, whole: number): number | undefined {
  return whole > 0 ? part / whole : undefined;
}

function Directory(props: { directory: CacheDirectory }) {
  const one = props.directory;
  const path = wireOf(one, 'path');
  const fill = ratio(one.used_bytes, one.capacity_bytes);
  return (
    <tr>
      <th scope="row"><Name wire={path} />{one.why && <p class="why"><bdi>{one.why}</bdi></p>}</th>
      <td><Tag tone={TONES[one.state] ?? ''}>{one.state}</Tag></td>
      <td><Bar label={`Fill of ${shown(path)}`} share={fill} /> {format.share(fill)}</td>
      <td class="number">{format.bytes(one.used_bytes)}</td>
      <td class="number">{format.bytes(one.capacity_bytes)}</td>
      <td class="number">{format.count(one.files)}</td>
      <td class="number">{format.count(one.packed_objects)}</td>
      <td class="number">{format.bytes(one.evicted_bytes)}</td>
    </tr>
  );
}

function PoolRow(props: { pool: Pool; cache: Status['cache'] }) {
  const { pool, cache } = props;
  const path = wireOf(pool, 'mount');
  const name = path === '' ? 'mounts that are gone' : shown(path);
  const limit = pool.quota_bytes || cache.capacity_bytes;
  return (
    <tr>
      <th scope="row">{path === '' ? <span class="muted">{name}</span> : <Name wire={path} />}</th>
      <td>
        <Bar label={`Share of ${name}`} share={ratio(pool.used_bytes, cache.capacity_bytes)}
          {...(pool.quota_bytes ? { mark: pool.quota_bytes / (cache.capacity_bytes || 1) } : {})} />
      </td>
      <td class="number">{format.bytes(pool.used_bytes)}</td>
      <td class="number">{pool.quota_bytes
        ? `${format.bytes(pool.quota_bytes)} (${format.share(ratio(pool.used_bytes, limit))})`
        : format.NOTHING}</td>
      <td>
        {pool.pinned && <Tag tone="ok">pinned</Tag>}{' '}
        {pool.priority !== 'normal' && <Tag>{pool.priority} priority</Tag>}{' '}
        {pool.even && <Tag>read by epochs</Tag>}{' '}
        {pool.ttl_seconds > 0 && <Tag>ttl {format.duration(pool.ttl_seconds)}</Tag>}
      </td>
      <td class="number">{format.bytes(pool.held_bytes)}</td>
    </tr>
  );
}

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
        <Tile label="Not kept for want of space" value={format.bytes(cache.refused_bytes)}
          detail="since the start" />
        <Tile label="Corrupt blocks" value={format.count(cache.corrupt_blocks)}
          detail="dropped and fetched again" />
      </dl>
      <Panel title="Directories" wide>
        <Table label="Cache directories" head={<>
          <th scope="col">Directory</th><th scope="col">State</th><th scope="col">Fill</th>
          <th scope="col" class="number">Used</th><th scope="col" class="number">Capacity</th>
          <th scope="col" class="number">Files</th><th scope="col" class="number">Packed</th>
          <th scope="col" class="number">Evicted</th></>}>
          {cache.directories.map((one) => <Directory key={wireOf(one, 'path')} directory={one} />)}
        </Table>
      </Panel>
      <Panel title="Whose bytes they are" wide>
        {pools.length === 0 ? <p class="empty">Nothing is cached yet.</p> : (
          <Table label="Cached bytes by mount" head={<>
            <th scope="col">Mount</th><th scope="col">Share of the cache</th>
            <th scope="col" class="number">Used</th><th scope="col" class="number">Quota</th>
            <th scope="col">Policy</th><th scope="col" class="number">Held by open files</th></>}>
            {pools.map((pool) => <PoolRow key={pool.id} pool={pool} cache={cache} />)}
          </Table>
        )}
      </Panel>
    </>
  );
}

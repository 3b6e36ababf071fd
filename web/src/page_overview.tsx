// SPDX-License-Identifier: Apache-2.0
// The daemon right now: problems first, then figures, then up to its last hour.
import { useMemo, useState } from 'preact/hooks';
import { BYTE_STEPS, Chart } from './chart';
import { hitShare, oldestWithin, OPERATIONS, originCounter, ORIGINS, recent, requestCounter,
  series, total } from './counters';
import type { Counters, Operation, Origin } from './counters';
import { history, useFindings, useStatus } from './feed';
import { toShow } from './findings';
import * as format from './format';
import { MountTable } from './mount_table';
import { Bar, Choice, FailureNote, Findings, Panel, Tile } from './parts';
import { pageLink } from './route';
import { kernelNote, kernelReads, loaded, passthroughFiles, programRate, toPrograms }
  from './throughput';
import type { Status } from './types';

const ORIGIN_NAMES: Record<Origin, string> = {
  memory: 'memory', cache: 'cache', source: 'store', local_disk: 'local files',
};
const OPERATION_NAMES: Record<Operation, string> = {
  read: 'read', list: 'list', stat: 'stat', write: 'write', remove: 'remove',
};

// A figure of one second jumps too much to be read.
const NOW_SECONDS = 5;
const LATELY_SECONDS = 60;

const requests = (counters: Counters) => total(counters, 'leat_source_requests_total');

function Attention() {
  const { value, failure } = useFindings();
  if (!value) return <FailureNote failure={failure} doing="Asking for findings" />;
  const all = toShow(value.findings);
  const problems = all.filter((one) => one.level === 'problem');
  const notes = all.length - problems.length;
  const rest = notes === 0 ? '' : `${notes} ${notes === 1 ? 'note' : 'notes'} on the health page`;
  if (problems.length === 0) {
    return (
      <p class="notice good" id="attention">
        <strong>No problems.</strong> {rest && <a href={pageLink('health')}>{rest}</a>}
      </p>
    );
  }
  return (
    <section class="panel wide attention" id="attention" aria-label="Problems">
      <Findings findings={problems} />
      <p><a href={pageLink('health')}>{rest || 'All on the health page'}</a></p>
    </section>
  );
}

function Tiles(props: { status: Status }) {
  const { status } = props;
  const samples = history();
  const before = oldestWithin(samples, LATELY_SECONDS)?.counters;
  const lately = hitShare(before, status.counters);
  const ever = hitShare(undefined, status.counters);
  const { cache, fetch } = status;
  const fill = cache.capacity_bytes > 0 ? cache.used_bytes / cache.capacity_bytes : undefined;
  return (
    <dl class="tiles">
      <Tile label="To programs"
        value={programRate(recent(samples, NOW_SECONDS, toPrograms),
          kernelReads(status.mounts, samples, NOW_SECONDS))}
        detail={<>{format.bytes(toPrograms(status.counters))} so far;{' '}
          {kernelNote(passthroughFiles(status.mounts))}</>} />
      <Tile label="Loaded from stores"
        value={format.byteRate(recent(samples, NOW_SECONDS, loaded))}
        detail={`${format.bytes(loaded(status.counters))} so far, jobs included`} />
      <Tile label="Hits, last minute" value={format.share(lately)}
        detail={`${format.share(ever)} since the start`} />
      <Tile label="Store requests a second"
        value={format.rate(recent(samples, NOW_SECONDS, requests))}
        detail={`${format.count(fetch.requests_in_flight)} in flight`} />
      <Tile label="Memory" value={format.bytes(status.rss_bytes)}
        detail={`${format.bytes(fetch.memory_bytes)} of ${
          format.bytes(fetch.memory_bytes_max)} in buffers`} />
      <Tile label="Cache" value={format.share(fill)} detail={
        <>
          <Bar label="Cache fill" share={fill} />
          {format.bytes(cache.used_bytes)} of {format.bytes(cache.capacity_bytes)}
        </>} />
    </dl>
  );
}

function Charts() {
  const [seconds, setSeconds] = useState(300);
  const samples = history();
  const shown = useMemo(() => {
    const last = samples[samples.length - 1]?.at ?? 0;
    return samples.filter((sample) => last - sample.at <= seconds + 2);
  }, [samples, seconds]);
  const times = useMemo(() => shown.slice(1).map((sample) => sample.at), [shown]);
  const origins = useMemo(() => ORIGINS.map((origin) => ({
    label: ORIGIN_NAMES[origin], color: `--${origin.replace('_', '-')}`,
    values: series(shown, (counters) => counters[originCounter(origin)] ?? 0),
  })), [shown]);
  const operations = useMemo(() => OPERATIONS.filter((one) => one !== 'write' && one !== 'remove')
    .map((operation) => ({
      label: OPERATION_NAMES[operation], color: `--${operation}`,
      values: series(shown, (counters) => counters[requestCounter(operation)] ?? 0),
    })), [shown]);
  const memory = useMemo(() => [
    { label: 'resident', color: '--memory', values: shown.slice(1).map((sample) => sample.rss) },
    { label: 'buffers', color: '--cache', values: shown.slice(1).map((sample) => sample.buffers) },
  ], [shown]);
  const hits = useMemo(() => [{
    label: 'of the bytes of stores that were read', color: '--cache',
    values: shown.slice(1).map((sample, i) => {
      const before = shown[i];
      if (!before || before.pid !== sample.pid) return null;
      return hitShare(before.counters, sample.counters) ?? null;
    }),
  }], [shown]);
  const load = useMemo(() => [
    { label: 'for readers, prefetch and jobs', color: '--source', values: series(shown, loaded) },
  ], [shown]);
  const chart = { times, seconds };
  const ofBytes = { tick: format.byteTick, steps: BYTE_STEPS };
  return (
    <>
      <Choice label="Show the last" value={seconds} onChange={setSeconds}
        options={[[60, '1 min'], [300, '5 min'], [900, '15 min'], [3600, '1 h']]} />
      <Panel title="To programs, by origin" wide>
        <Chart {...chart} label="To programs now" lines={origins} stack format={format.byteRate}
          floor={1024 * 1024} {...ofBytes} />
        <p class="hint">Reads that the daemon answered. The kernel reads complete cached files by
          itself (passthrough) and answers from its page cache; it counts neither for the daemon,
          so neither is in any figure.</p>
      </Panel>
      <div class="grid">
        <Panel title="Loaded from stores">
          <Chart {...chart} label="Loaded now" lines={load} format={format.byteRate}
            floor={1024 * 1024} {...ofBytes} />
        </Panel>
        <Panel title="Store requests a second">
          <Chart {...chart} label="Requests now" lines={operations} format={format.rate}
            tick={format.tick} floor={5} />
        </Panel>
        <Panel title="Memory">
          <Chart {...chart} label="Memory now" lines={memory} format={format.bytes} {...ofBytes} />
        </Panel>
        <Panel title="Hits">
          <Chart {...chart} label="Hits now" lines={hits} format={format.share} top={1} />
        </Panel>
      </div>
    </>
  );
}

export function OverviewPage() {
  const { value: status, failure } = useStatus();
  if (!status) return <FailureNote failure={failure} doing="Asking the daemon" />;
  return (
    <>
      <Attention />
      <Tiles status={status} />
      <Panel title="Mounts" wide><MountTable status={status} /></Panel>
      <Charts />
    </>
  );
}

// SPDX-License-Identifier: Apache-2.0
// What is wrong, in words, with what to do; limits; what was slow; why paths could not be read.
import { useErrors, useFindings, useSlow, useStatus } from './feed';
import { pathOf, toShow } from './findings';
import * as format from './format';
import { shown, wireOf } from './names';
import { Bar, FailureNote, Findings, Name, Panel, Table, Tag } from './parts';
import type { Column, Row } from './parts';
import { browseLink } from './route';
import type { PathError, SlowOperation, Status } from './types';

// More is a matter for the log.
const SHOWN = 100;

function Limits(props: { status: Status }) {
  const { status } = props;
  const rows: [string, number, number, (value: number) => string][] = [
    ['Open files', status.open_files, status.open_files_max, format.count],
    ['Buffers', status.fetch.memory_bytes, status.fetch.memory_bytes_max, format.bytes],
    ['Cache', status.cache.used_bytes, status.cache.capacity_bytes, format.bytes],
  ];
  return (
    <Panel title="Limits" wide>
      <dl class="facts">
        {rows.map(([name, used, most, text]) => {
          const part = most > 0 ? used / most : undefined;
          return (
            <div key={name}>
              <dt>{name}</dt>
              <dd><span class="cached wide"><Bar label={name} share={part}
                tone={name === 'Open files' && (part ?? 0) >= 0.8 ? 'warn' : ''} />
                <span>{text(used)} of {text(most)}</span></span></dd>
            </div>
          );
        })}
        <div><dt>Resident memory</dt><dd>{format.bytes(status.rss_bytes)}</dd></div>
      </dl>
    </Panel>
  );
}

function errorRow(error: PathError): Row {
  const whole = pathOf(error);
  return { key: `${error.time}${whole}`, cells: [
    format.time(error.time),
    <Tag tone={error.code === 'read_only' ? 'warn' : 'bad'}>{error.code}</Tag>,
    <a href={browseLink(whole)}><Name wire={whole} /></a>,
    <span class="reason"><bdi>{shown(wireOf(error, 'reason'))}</bdi></span>,
  ] };
}

const ERROR_COLUMNS: Column[] = [
  { title: 'Time (UTC)', number: true }, { title: 'Code' }, { title: 'Path' }, { title: 'Reason' }];

function slowRow(slow: SlowOperation): Row {
  const whole = wireOf(slow, 'path');
  return { key: `${slow.time}${slow.operation}${slow.path}`, cells: [
    format.time(slow.time), `${slow.seconds.toFixed(2)} s`, slow.operation,
    <a href={browseLink(whole)}><Name wire={whole} /></a>,
    <span class="reason"><bdi>{slow.failure ?? slow.reason}</bdi></span>,
  ] };
}

const SLOW_COLUMNS: Column[] = [{ title: 'Time (UTC)', number: true },
  { title: 'Took', number: true }, { title: 'Operation' }, { title: 'Path' },
  { title: 'Where the time went' }];

function Slow() {
  const { value, failure } = useSlow();
  const list = value?.operations ?? [];
  return (
    <Panel title="Slow operations" wide aside={list.length > SHOWN
      ? <span class="muted">the newest {SHOWN} of {format.count(list.length)}</span> : undefined}>
      <FailureNote failure={failure} doing="Asking for slow operations" />
      {list.length === 0
        ? <p class="empty">Nothing took longer than <code>log.slow_threshold</code>.</p>
        : <Table label="Slow operations, the newest first" columns={SLOW_COLUMNS} header={3}
            rows={list.slice(0, SHOWN).map(slowRow)} />}
    </Panel>
  );
}

export function HealthPage() {
  const { value: status, failure } = useStatus();
  const errors = useErrors();
  const findings = useFindings();
  if (!status) return <FailureNote failure={failure} doing="Asking the daemon" />;
  const list = errors.value?.errors ?? [];
  const found = toShow(findings.value?.findings ?? []);
  return (
    <>
      <FailureNote failure={findings.failure} doing="Asking for findings" />
      {!findings.value ? null : found.length === 0
        ? <p class="notice good"><strong>Nothing to mend.</strong> Cache directories are normal,
          nothing is corrupt, and no path failed.</p>
        : <Panel title="Findings" wide><Findings findings={found} /></Panel>}
      <Limits status={status} />
      <Panel title="Recent errors" wide aside={list.length > SHOWN
        ? <span class="muted">the newest {SHOWN} of {format.count(list.length)}</span> : undefined}>
        <FailureNote failure={errors.failure} doing="Asking for errors" />
        {list.length === 0 ? <p class="empty">No path has failed since the daemon started.</p> : (
          <Table label="Errors, the newest first" columns={ERROR_COLUMNS} header={2}
            rows={list.slice(0, SHOWN).map(errorRow)} />
        )}
      </Panel>
      <Slow />
      <p class="hint"><code>leat doctor</code> on the command line has the same findings, and
        those of this host beside them: FUSE, kernel, limits, disks.</p>
    </>
  );
}

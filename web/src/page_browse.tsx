// SPDX-License-Identifier: Apache-2.0
// The namespace, from the mounts on: a page of a folder at a time, with what is cached of each file
// and below each folder; of a file, what is known of it.
import { useEffect, useState } from 'preact/hooks';
import { ask, asFailure } from './api';
import type { Failure } from './api';
import { ofEntry } from './cached_share';
import { useJobs, useStatus } from './feed';
import * as format from './format';
import { joined, shown, wireOf } from './names';
import { MountTable } from './mount_table';
import { amounts, JobProgress, startJob } from './page_jobs';
import { Cached, Confirm, Facts, FailureNote, Name, Panel, PathLinks, Table, Tag } from './parts';
import type { Column, Row } from './parts';
import { browseLink } from './route';
import type { Entry, Job, Listing, Stat } from './types';

const PAGE = 200;

interface Answer<T> { value?: T; failure?: Failure; }

/** Asks once for each target; `again` asks anew and keeps what there was until it is there. */
function useAsked<T>(target: string, again: number): Answer<T> {
  const [answer, setAnswer] = useState<Answer<T>>({});
  useEffect(() => {
    let wanted = true;
    ask<T>('GET', target)
      .then((value) => { if (wanted) setAnswer({ value }); })
      .catch((reason: unknown) => { if (wanted) setAnswer({ failure: asFailure(reason) }); });
    return () => { wanted = false; };
  }, [target, again]);
  return answer;
}

function rowOf(entry: Entry, directory: string): Row {
  const name = wireOf(entry, 'name');
  return { key: name, cells: [
    <a class={entry.kind} href={browseLink(joined(directory, name))}>
      <Name wire={name} />{entry.kind === 'directory' ? '/' : ''}
    </a>,
    <Cached share={entry.kind === 'file' ? { ...ofEntry(entry), amounts: '' } : ofEntry(entry)}
      of={shown(name)} />,
    entry.kind === 'file' ? format.bytes(entry.size) : sizeOf(entry),
    <span class="muted">{entry.kind}</span>, format.time(entry.mtime),
  ] };
}

// Bytes of the files below a directory.
function sizeOf(entry: Entry): string {
  const { below } = entry;
  if (!below || (below.files === 0 && below.partial)) return format.NOTHING;
  return `${below.partial ? '\u2265 ' : ''}${format.bytes(below.bytes)}`;
}

const COLUMNS: Column[] = [
  { title: 'Name' }, { title: 'Cached' }, { title: 'Size', number: true }, { title: 'Kind' },
  { title: 'Changed (UTC)', number: true }];

/** Load and free what is at `path`, and how far that is; `onDone` when such a job has ended. */
function Actions(props: { path: string; what: string; onDone: () => void }) {
  const [job, setJob] = useState<Job>();
  const [sure, setSure] = useState(false);
  const [failure, setFailure] = useState<Failure>();
  const start = async (kind: string) => {
    setFailure(undefined);
    try {
      setJob(await startJob(kind, props.path));
    } catch (reason) {
      setFailure(asFailure(reason));
    }
  };
  return (
    <div class="actions">
      <button type="button" onClick={() => void start('load')}>Load {props.what}</button>{' '}
      <button type="button" onClick={() => setSure(true)}>Free {props.what}</button>
      <FailureNote failure={failure} doing="Starting it" />
      {job && <Followed key={job.id} job={job} onDone={props.onDone} />}
      {sure && (
        <Confirm title={`Free ${props.what}?`} action="Free it" onDone={(confirmed) => {
          setSure(false);
          if (confirmed) void start('free');
        }}>
          <p>What is cached of <Name wire={props.path} /> goes. Nothing in the store changes; what
            is read again is fetched again.</p>
        </Confirm>
      )}
    </div>
  );
}

function Followed(props: { job: Job; onDone: () => void }) {
  const { value } = useJobs();
  const job = value?.jobs.find((one) => one.id === props.job.id) ?? props.job;
  const ended = job.state !== 'running';
  useEffect(() => { if (ended) props.onDone(); }, [ended]);
  if (!ended) return <JobProgress job={job} />;
  return (
    <p role="status">
      <Tag tone={job.state === 'done' ? 'ok' : 'bad'}>{job.state}</Tag>{' '}
      {job.kind}: {amounts(job)}, in {format.duration(job.seconds)}
      {job.errors.length > 0 && <>: <bdi>{job.errors[0]}</bdi> <a href="#/jobs">all errors</a></>}
    </p>
  );
}

function FileDetails(props: { path: string }) {
  const [again, setAgain] = useState(0);
  const { value: stat, failure } = useAsked<Stat>(`/v1/stat?path=${props.path}`, again);
  if (!stat) return <FailureNote failure={failure} doing="Looking it up" />;
  const part = ofEntry(stat);
  return (
    <Panel title={shown(props.path.split('/').pop() ?? '')} wide>
      <Facts facts={[
        ['Size', (stat.size ?? 0) < 1024 ? `${format.count(stat.size)} bytes`
          : `${format.bytes(stat.size)} (${format.count(stat.size)} bytes)`],
        ['Cached', part.share === undefined ? 'nothing is known of a cache'
          : <Cached share={part} of={shown(wireOf(stat, 'name'))} />],
        ['Changed', `${format.time(stat.mtime)} UTC`],
        ['Version', <code class="name">{stat.version}</code>],
        ['Source', <Name wire={wireOf(stat, 'source')} />],
        ['Mount', <Name wire={wireOf(stat, 'mount')} />],
        ['Served by', stat.served_by === 'kernel'
          ? 'the kernel, which has the cached file (passthrough)' : 'the daemon'],
      ]} />
      <Actions path={props.path} what="this file" onDone={() => setAgain(again + 1)} />
    </Panel>
  );
}

function Mounts() {
  const { value: status, failure } = useStatus();
  if (!status) return <FailureNote failure={failure} doing="Asking for the mounts" />;
  return <Panel title="Mounts" wide><MountTable status={status} /></Panel>;
}

/** "/" shows the mounts, wherever they lie. */
export function BrowsePage(props: { path: string }) {
  return props.path === '/' ? <Mounts /> : <Folder path={props.path} />;
}

function Folder(props: { path: string }) {
  const { path } = props;
  const { value: status } = useStatus(false);
  const mounts = (status?.mounts ?? []).map((mount) => wireOf(mount, 'path'));
  // Names after which the pages before this one began.
  const [pages, setPages] = useState<string[]>(['']);
  const [again, setAgain] = useState(0);
  const after = pages[pages.length - 1] ?? '';
  const { value: list, failure } = useAsked<Listing>(
    `/v1/ls?path=${path}&cached=1&below=1&limit=${PAGE}${after ? `&after=${after}` : ''}`, again);
  const next = list?.next === undefined ? '' : wireOf(list, 'next');
  const refresh = () => setAgain(again + 1);
  return (
    <>
      <PathLinks path={path} mounts={mounts} label="Path" />
      <FailureNote failure={failure} doing={`Listing ${shown(path)}`} />
      {!list && !failure && <p class="empty" role="status">Listing</p>}
      {list?.kind === 'file' && <FileDetails path={path} />}
      {list?.kind === 'directory' && (
        <Panel title="Names" wide
          aside={<Actions path={path} what="this folder" onDone={refresh} />}>
          {list.entries.length === 0 ? <p class="empty">This folder is empty.</p> : (
            <Table label="Names in this folder" columns={COLUMNS}
              rows={list.entries.map((entry) => rowOf(entry, path))} />
          )}
          {list.entries.some(({ below }) => below?.partial && below.files > 0) && (
            <p class="hint">Partial: of what the daemon has listed below the folder so far, without
              a request to the store. Opening the folder lists it.</p>
          )}
          {list.skipped > 0 && <p class="notice">{format.count(list.skipped)} names of the store
            cannot be shown in a folder and are skipped.</p>}
          {(pages.length > 1 || next) && (
            <p class="paging">
              <button type="button" disabled={pages.length === 1}
                onClick={() => setPages(pages.slice(0, -1))}>Earlier names</button>{' '}
              <span>page {format.count(pages.length)}</span>{' '}
              <button type="button" disabled={!next}
                onClick={() => setPages([...pages, next])}>Later names</button>
            </p>
          )}
        </Panel>
      )}
    </>
  );
}

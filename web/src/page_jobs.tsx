// SPDX-License-Identifier: Apache-2.0
// Jobs of the daemon: what runs, how far and how fast, what ended and why; starting and cancelling.
import { useState } from 'preact/hooks';
import { ask, asFailure } from './api';
import type { Failure } from './api';
import { jobRates, useJobs, wakeAll } from './feed';
import * as format from './format';
import { countsBytes, endedAgo, shareOf } from './job_progress';
import { shown, textOf, toWire, wireOf } from './names';
import { Confirm, FailureNote, Name, Panel, Table, Tag } from './parts';
import type { Column, Row } from './parts';
import type { Job } from './types';

const TONES: Record<string, string> = { running: '', done: 'ok', failed: 'bad', cancelled: 'warn' };

/** `path` in wire form. */
export async function startJob(kind: string, path: string): Promise<Job> {
  const job = await ask<Job>('POST', '/v1/jobs', { kind, path: textOf(path), path_encoded: path });
  wakeAll();
  return job;
}

function filesOf(job: Job): string {
  const [done, all] = [format.count(job.files_done), format.count(job.files_total)];
  const word = job.files_total === 1 ? 'file' : 'files';
  if (job.state === 'running' && !job.planned) return `${done} of at least ${all} ${word}`;
  return done === all ? `${all} ${word}` : `${done} of ${all} ${word}`;
}

function bytesOf(job: Job): string {
  const [done, all] = [format.bytes(job.bytes_done), format.bytes(job.bytes_total)];
  if (job.kind === 'free') return `${done} removed`;
  return job.bytes_done === job.bytes_total ? all : `${done} of ${all}`;
}

export function amounts(job: Job): string {
  if (job.kind === 'refresh') {
    return `${format.count(job.files_done)} directories checked; ${format.count(job.added)} ` +
      `added, ${format.count(job.changed)} changed, ${format.count(job.removed)} removed`;
  }
  return `${filesOf(job)}, ${bytesOf(job)}`;
}

export function JobProgress(props: { job: Job }) {
  const { job } = props;
  const progress = jobRates.of(job);
  const speed = countsBytes(job)
    ? format.byteRate(progress.bytesPerSecond) : `${format.rate(progress.filesPerSecond)} files/s`;
  const left = progress.secondsLeft;
  return (
    <div class="progress">
      {progress.share === undefined
        ? <progress aria-label={`${job.kind} ${shown(wireOf(job, 'path'))}`} />
        : <progress aria-label={`${job.kind} ${shown(wireOf(job, 'path'))}`} max={1}
          value={progress.share} />}
      <span class="figures">
        {job.planned ? `${format.share(shareOf(job))} \u00b7 ` : 'counting \u00b7 '}
        {amounts(job)} {'\u00b7'} {speed}
        {left !== undefined && ` \u00b7 about ${format.duration(left)} left`}
      </span>
    </div>
  );
}

const now = () => Date.now() / 1000;

/** Mean over its whole run. */
function meanRate(job: Job): string {
  if (job.seconds <= 0) return format.NOTHING;
  return countsBytes(job) ? format.byteRate(job.bytes_done / job.seconds)
    : `${format.rate(job.files_done / job.seconds)} files/s`;
}

function Running(props: { job: Job }) {
  const { job } = props;
  const [failure, setFailure] = useState<Failure>();
  const [asked, setAsked] = useState(false);
  const path = wireOf(job, 'path');
  const cancel = async () => {
    setAsked(true);
    try {
      await ask('DELETE', `/v1/jobs/${job.id}`);
      wakeAll();
    } catch (reason) {
      setAsked(false);
      setFailure(asFailure(reason));
    }
  };
  return (
    <li class="job" data-job={job.id}>
      <div class="line">
        <strong>{job.kind}</strong> <Name wire={path} /> <span class="muted">job {job.id}, began {
          format.age(job.seconds)}</span>
        <button type="button" onClick={cancel} disabled={asked}
          aria-label={`Cancel job ${job.id}, ${job.kind} ${shown(path)}`}>
          {asked ? 'Cancelling' : 'Cancel'}
        </button>
      </div>
      <JobProgress job={job} />
      <JobErrors job={job} />
      <FailureNote failure={failure} doing="Cancelling" />
    </li>
  );
}

function JobErrors(props: { job: Job }) {
  const { errors, errors_total: total } = props.job;
  if (errors.length === 0) return null;
  return (
    <details>
      <summary>{format.count(Math.max(total, errors.length))} failed{
        errors.length < total ? `, the first ${errors.length}` : ''}</summary>
      <ul class="errors">{errors.map((one, i) => <li key={i}><bdi>{one}</bdi></li>)}</ul>
    </details>
  );
}

function endedRow(job: Job): Row {
  return { key: job.id, cells: [
    job.id, job.kind, <><Name wire={wireOf(job, 'path')} /><JobErrors job={job} /></>,
    <><Tag tone={TONES[job.state] ?? ''}>{job.state}</Tag>{job.code && job.code !== job.state
      ? <span class="muted"> {job.code}</span> : null}</>,
    amounts(job), meanRate(job), format.duration(job.seconds),
    format.age(endedAgo(job, now())),
  ] };
}

const ENDED_COLUMNS: Column[] = [
  { title: 'Job', number: true }, { title: 'Kind' }, { title: 'Path' }, { title: 'State' },
  { title: 'Done' }, { title: 'Rate', number: true }, { title: 'Took', number: true },
  { title: 'Ended', number: true }];

const KINDS: Record<string, string> = {
  load: 'Load: fetch everything below it into the cache',
  free: 'Free: drop everything below it from the cache',
  refresh: 'Refresh: ask the store what has changed below it',
  verify: 'Verify: compare the whole cache with its checksums',
};

function Start() {
  const [kind, setKind] = useState('load');
  const [path, setPath] = useState('');
  const [failure, setFailure] = useState<Failure>();
  const [sure, setSure] = useState(false);
  const whole = kind === 'verify';
  const start = async () => {
    try {
      await startJob(kind, whole ? '/' : toWire(path));
      setFailure(undefined);
    } catch (reason) {
      setFailure(asFailure(reason));
    }
  };
  return (
    <Panel title="Start a job" wide>
      <form class="row" onSubmit={(event) => {
        event.preventDefault();
        if (kind === 'free') setSure(true);
        else void start();
      }}>
        <label class="field">What
          <select value={kind} onChange={(event) => setKind(event.currentTarget.value)}>
            {Object.entries(KINDS).map(([name, text]) => (
              <option key={name} value={name}>{text}</option>
            ))}
          </select>
        </label>
        <label class="field grow">Path, as programs use it
          <input type="text" value={whole ? '/' : path} disabled={whole} required={!whole}
            placeholder="/mnt/train/images" pattern="/.*" spellcheck={false} autocomplete="off"
            title="An absolute path in a mount"
            onInput={(event) => setPath(event.currentTarget.value)} />
        </label>
        <button type="submit" class="primary">Start</button>
      </form>
      <FailureNote failure={failure} doing="Starting it" />
      {sure && (
        <Confirm title="Drop it from the cache?" action="Free it" onDone={(confirmed) => {
          setSure(false);
          if (confirmed) void start();
        }}>
          <p>Everything that is cached below <Name wire={toWire(path)} /> goes. Nothing in the store
            changes; what is read again is fetched again.</p>
        </Confirm>
      )}
    </Panel>
  );
}

export function JobsPage() {
  const { value, failure } = useJobs();
  const jobs = value?.jobs ?? [];
  const running = jobs.filter((job) => job.state === 'running');
  const ended = jobs.filter((job) => job.state !== 'running').reverse();
  return (
    <>
      {!value && <FailureNote failure={failure} doing="Asking for the jobs" />}
      <Panel title="Running" wide>
        {running.length === 0 ? <p class="empty">Nothing runs.</p> : (
          <ul class="jobs">{running.map((job) => <Running key={job.id} job={job} />)}</ul>
        )}
      </Panel>
      <Start />
      <Panel title="Ended" wide>
        {ended.length === 0
          ? <p class="empty">None since the daemon started; the last 100 are remembered.</p>
          : (
            <Table label="Jobs that have ended" columns={ENDED_COLUMNS} header={2}
              rows={ended.map(endedRow)} />
          )}
      </Panel>
    </>
  );
}

// SPDX-License-Identifier: Apache-2.0
// What all pages are made of.
import type { ComponentChildren } from 'preact';
import { useEffect, useId, useRef } from 'preact/hooks';
import type { Failure } from './api';
import type { CachedShare } from './cached_share';
import { sentence, titleOf } from './findings';
import * as format from './format';
import { crumbs, pieces, visible } from './names';
import { browseLink } from './route';
import type { Finding } from './types';

export function Panel(props: {
  title: string; aside?: ComponentChildren; children: ComponentChildren; wide?: boolean;
}) {
  const id = useId();
  return (
    <section class={props.wide ? 'panel wide' : 'panel'} aria-labelledby={id}>
      <header><h2 id={id}>{props.title}</h2>{props.aside}</header>
      {props.children}
    </section>
  );
}

export function Tile(props: { label: string; value: string; detail?: ComponentChildren }) {
  return (
    <div class="tile">
      <dt>{props.label}</dt>
      <dd><strong>{props.value}</strong>{props.detail && <span>{props.detail}</span>}</dd>
    </div>
  );
}

/** A part of a whole, as a bar; the figures stand beside it. */
export function Bar(props: {
  label: string; share: number | undefined; mark?: number; tone?: string;
}) {
  const value = Math.min(1, Math.max(0, props.share ?? 0));
  return (
    <span class={`bar ${props.tone ?? ''}`} role="meter" aria-label={props.label} aria-valuemin={0}
      aria-valuemax={100} aria-valuenow={Math.floor(value * 100)}
      aria-valuetext={format.share(props.share)}>
      <span style={{ width: `${value * 100}%` }} />
      {props.mark !== undefined && <i style={{ left: `${Math.min(1, props.mark) * 100}%` }} />}
    </span>
  );
}

/** A cached share with its bar and figures. */
export function Cached(props: { share: CachedShare; of: string }) {
  const { share, text, amounts } = props.share;
  if (share === undefined) return <span class="muted">{text}</span>;
  return (
    <span class="cached">
      <Bar label={`Cached of ${props.of}`} share={share} />
      <span>{text}{amounts && <small>{amounts}</small>}</span>
    </span>
  );
}

/** A name or path in wire form. Isolated, so that its direction moves nothing around it. */
export function Name(props: { wire: string }) {
  return (
    <bdi class="name">
      {pieces(props.wire).map((one) => (one.hidden ? <i class="mark">{one.text}</i> : one.text))}
    </bdi>
  );
}

/** A path whose every folder can be browsed, from the mounts on. */
export function PathLinks(props: { path: string; mounts: readonly string[]; label: string }) {
  const parts = crumbs(props.path, props.mounts);
  return (
    <nav class="crumbs" aria-label={props.label}>
      <ol>
        {parts.map((part, i) => (
          <li key={part.path}>
            {i === parts.length - 1
              ? <a href={browseLink(part.path)} aria-current="page"><Name wire={part.name} /></a>
              : <a href={browseLink(part.path)}><Name wire={part.name} /></a>}
          </li>
        ))}
      </ol>
    </nav>
  );
}

export function PathLink(props: { path: string }) {
  return <a class="path" href={browseLink(props.path)}><Name wire={props.path} /></a>;
}

export function Tag(props: { tone?: string; children: ComponentChildren }) {
  return <span class={`tag ${props.tone ?? ''}`}>{props.children}</span>;
}

export function FailureNote(props: { failure: Failure | undefined; doing: string }) {
  if (!props.failure) return null;
  return (
    <div class="notice bad" role="alert">
      <strong>{props.doing} failed.</strong> <bdi>{props.failure.message}</bdi>
    </div>
  );
}

export function Findings(props: { findings: readonly Finding[] }) {
  return (
    <ul class="findings">
      {props.findings.map((finding) => (
        <li key={`${finding.name} ${finding.subject}`} class={finding.level}>
          <Tag tone={finding.level === 'problem' ? 'bad' : 'warn'}>{finding.level}</Tag>
          <div>
            <strong><bdi>{titleOf(finding)}</bdi></strong>
            {finding.cost && <p><bdi>{sentence(finding.cost)}</bdi></p>}
            {finding.action && <p class="action">To do: <bdi>{visible(finding.action)}</bdi></p>}
          </div>
        </li>
      ))}
    </ul>
  );
}

export interface Column { title: string; number?: boolean; }
export interface Row { key: string | number; cells: ComponentChildren[]; }

/** A table whose column `header` names its rows. Where it does not fit it scrolls by itself; on a
 * narrow screen each row is a block of its own with its titles beside the figures (which takes the
 * roles away that the elements have by themselves, so they are said). */
export function Table(props: {
  label: string; columns: readonly Column[]; rows: readonly Row[]; header?: number;
}) {
  const header = props.header ?? 0;
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={props.label}>
      <table role="table">
        <thead role="rowgroup">
          <tr role="row">
            {props.columns.map((column) => (
              <th key={column.title} role="columnheader" scope="col"
                class={column.number ? 'number' : ''}>{column.title}</th>
            ))}
          </tr>
        </thead>
        <tbody role="rowgroup">
          {props.rows.map((row) => (
            <tr key={row.key} role="row">
              {props.columns.map((column, i) => (i === header
                ? <th key={column.title} role="rowheader" scope="row">{row.cells[i]}</th>
                : (
                  <td key={column.title} role="cell" class={column.number ? 'number' : ''}>
                    <span class="title" aria-hidden="true">{column.title}</span>
                    <span>{row.cells[i]}</span>
                  </td>
                )))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Asks before something happens. Closed by Escape, as every dialog. */
export function Confirm(props: {
  title: string; children: ComponentChildren; action: string;
  onDone: (confirmed: boolean) => void;
}) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => { dialog.current?.showModal(); }, []);
  return (
    <dialog ref={dialog} aria-labelledby={id} onClose={() => props.onDone(false)}>
      <h2 id={id}>{props.title}</h2>
      {props.children}
      <p class="buttons">
        <button type="button" class="primary" onClick={() => props.onDone(true)}>
          {props.action}
        </button>
        <button type="button" onClick={() => props.onDone(false)}>Keep as it is</button>
      </p>
    </dialog>
  );
}

/** One of few, as radio buttons in a row. */
export function Choice<T extends string | number>(props: {
  label: string; value: T; options: readonly (readonly [T, string])[]; onChange: (value: T) => void;
}) {
  const name = useId();
  return (
    <fieldset class="choice">
      <legend>{props.label}</legend>
      {props.options.map(([value, text]) => (
        <label key={value}>
          <input type="radio" name={name} checked={value === props.value}
            onChange={() => props.onChange(value)} />
          <span>{text}</span>
        </label>
      ))}
    </fieldset>
  );
}

/** Name and value in two columns. */
export function Facts(props: { facts: readonly (readonly [string, ComponentChildren])[] }) {
  return (
    <dl class="facts">
      {props.facts.map(([name, value]) => (
        <div key={name}><dt>{name}</dt><dd>{value}</dd></div>
      ))}
    </dl>
  );
}

// SPDX-License-Identifier: Apache-2.0
// Requests to the stores, and their estimated cost.
import { useState } from 'preact/hooks';
import { hitShare, OPERATIONS, recent, requestCounter, total } from './counters';
import type { Counters, Operation } from './counters';
import { history, useStatus } from './feed';
import * as format from './format';
import { FailureNote, Panel, Table, Tile } from './parts';
import { estimate, LISTS, parsePrice, parsePrices, PRICES_OF, suggestedList } from './prices';
import type { Column, Row } from './parts';
import type { Prices } from './prices';
import type { Status } from './types';

const KEPT = 'leat.prices';
const LATELY_SECONDS = 60;
const OWN = 'own';

const ASKED: Record<Operation, string> = {
  read: 'read (GET of a range)', list: 'list (a page of names)', stat: 'stat (HEAD)',
  write: 'write (PUT, parts)', remove: 'remove (DELETE)',
};

interface Chosen { list: string; prices: Prices; }

/** Of what the browser keeps; nothing where it keeps nothing. */
function stored(change?: (storage: Storage) => void): string | null {
  try {
    change?.(window.localStorage);
    return window.localStorage.getItem(KEPT);
  } catch {
    return null;
  }
}

function chosenFrom(status: Status): Chosen {
  const kept = parsePrices(stored());
  if (kept) {
    const list = Object.keys(LISTS).find((name) => LISTS[name]?.name === kept.name);
    return { list: list ?? OWN, prices: kept };
  }
  const list = suggestedList(status.mounts.map((mount) => mount.source));
  return { list, prices: LISTS[list] as Prices };
}

function usePrices(status: Status): [Chosen, (chosen: Chosen) => void, () => void] {
  const [chosen, setChosen] = useState(() => chosenFrom(status));
  const keep = (next: Chosen) => {
    stored((storage) => storage.setItem(KEPT, JSON.stringify(next.prices)));
    setChosen(next);
  };
  const forget = () => {
    stored((storage) => storage.removeItem(KEPT));
    setChosen(chosenFrom(status));
  };
  return [chosen, keep, forget];
}

function PriceField(props: {
  label: string; value: number; onChange: (value: number) => void;
}) {
  const [text, setText] = useState(String(props.value));
  const [from, setFrom] = useState(props.value);
  if (from !== props.value) {
    setFrom(props.value);
    if (parsePrice(text) !== props.value) setText(String(props.value));
  }
  const wrong = parsePrice(text) === undefined;
  return (
    <input type="text" inputMode="decimal" class="price" aria-label={props.label} value={text}
      aria-invalid={wrong} onInput={(event) => {
        setText(event.currentTarget.value);
        const price = parsePrice(event.currentTarget.value);
        if (price !== undefined) props.onChange(price);
      }} />
  );
}

function PriceLists(props: { chosen: Chosen; keep: (next: Chosen) => void; forget: () => void }) {
  const { chosen } = props;
  return (
    <form class="row" onSubmit={(event) => event.preventDefault()}>
      <label class="field">Price list
        <select value={chosen.list} onChange={(event) => {
          const prices = LISTS[event.currentTarget.value];
          if (prices) props.keep({ list: event.currentTarget.value, prices });
        }}>
          {Object.entries(LISTS).map(([name, prices]) => (
            <option key={name} value={name}>{prices.name}</option>
          ))}
          {chosen.list === OWN && <option value={OWN}>your own prices</option>}
        </select>
      </label>
      {chosen.list === OWN && (
        <button type="button" onClick={props.forget}>Back to the list</button>
      )}
    </form>
  );
}

const COLUMNS: Column[] = [
  { title: 'Operation' }, { title: 'Requests', number: true },
  { title: 'Now, a second', number: true },
  { title: 'US$ for 1,000', number: true }, { title: 'Cost', number: true }];

function Costs(props: { status: Status }) {
  const { status } = props;
  const [chosen, keep, forget] = usePrices(status);
  const { prices } = chosen;
  const samples = history();
  const cost = estimate(status.counters, prices);
  const change = (next: Partial<Prices>) => {
    keep({ list: OWN, prices: { ...prices, ...next, name: 'own' } });
  };
  const perHour = recent(samples, LATELY_SECONDS,
    (counters) => estimate(counters, prices).total);
  const now = (value: (counters: Counters) => number) => recent(samples, LATELY_SECONDS, value);
  const rows: Row[] = cost.operations.map(({ operation, requests, cost: each }) => ({
    key: operation, cells: [
      ASKED[operation], format.count(requests),
      format.rate(now((counters) => counters[requestCounter(operation)] ?? 0)),
      <PriceField label={`US dollars for 1,000 ${operation} requests`}
        value={prices.per1000[operation]} onChange={(price) => change(
          { per1000: { ...prices.per1000, [operation]: price } })} />,
      format.dollars(each)],
  }));
  rows.push({ key: 'retries', cells: [
    'sent again (priced as reads)', format.count(cost.retries.requests),
    format.rate(now((counters) => total(counters, 'leat_source_retries_total'))),
    format.NOTHING, format.dollars(cost.retries.cost)] });
  return (
    <Panel title="Requests and what they may have cost" wide aside={
      <strong id="estimate">about {format.dollars(cost.total)}</strong>}>
      <p class="hint"><strong>An estimate, no bill.</strong> Requests that this daemon counted
        since it started, {format.duration(status.uptime_seconds)} ago, times the prices below:
        public list prices of {PRICES_OF} for the United States, which you can change. It knows no
        discounts, free tiers, classes of storage or taxes{!perHour ? '' :
        `. At the rate of the last minute: about ${format.dollars(perHour * 3600)} an hour`}.</p>
      <PriceLists chosen={chosen} keep={keep} forget={forget} />
      <Table label="Requests by operation" columns={COLUMNS} rows={rows} />
      <p class="transfer">
        {format.bytes(cost.transfer.bytes)} out of the stores, now{' '}
        {format.byteRate(now((counters) => total(counters, 'leat_source_bytes_total')))}, at{' '}
        <span class="price-of">$ <PriceField label="US dollars for a GiB that leaves the store"
          value={prices.perGiB} onChange={(price) => change({ perGiB: price })} />{' '}
          a GiB:</span>{' '}
        <strong>{format.dollars(cost.transfer.cost)}</strong>
      </p>
    </Panel>
  );
}

const sum = (counters: Counters, names: readonly string[]) =>
  names.reduce((all, name) => all + total(counters, name), 0);

export function RequestsPage() {
  const { value: status, failure } = useStatus();
  if (!status) return <FailureNote failure={failure} doing="Asking for the counters" />;
  const { counters } = status;
  const requests = OPERATIONS.reduce((all, one) => all + (counters[requestCounter(one)] ?? 0), 0);
  const failed = total(counters, 'leat_source_errors_total');
  const saved = sum(counters, ['leat_fetch_bytes_total{origin="memory"}',
    'leat_fetch_bytes_total{origin="cache"}']);
  return (
    <>
      <dl class="tiles">
        <Tile label="Requests" value={format.count(requests)}
          detail={`${format.count(status.fetch.requests_in_flight)} in flight`} />
        <Tile label="Bytes out of the stores"
          value={format.bytes(total(counters, 'leat_source_bytes_total'))}
          detail="prefetch included" />
        <Tile label="Failed" value={format.count(failed)} detail={requests > 0
          ? `${format.share(failed / requests)} of requests` : 'of no requests'} />
        <Tile label="Throttled" value={format.count(total(counters, 'leat_source_throttled_total'))}
          detail="throttling responses" />
        <Tile label="Sent again" value={format.count(total(counters, 'leat_source_retries_total'))}
          detail={`${format.count(total(counters, 'leat_source_timeouts_total'))} timed out`} />
        <Tile label="Answered without a store" value={format.bytes(saved)}
          detail={`${format.share(hitShare(undefined, counters))} hits`} />
      </dl>
      <Costs status={status} />
    </>
  );
}

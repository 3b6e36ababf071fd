// SPDX-License-Identifier: Apache-2.0
// A chart over the last minutes or hour, by uPlot. Its legend is the page's own: a list with the newest
// figures, which is also what a screen reader gets.
import { useEffect, useRef, useState } from 'preact/hooks';
import uPlot from 'uplot';
import { NOTHING } from './format';

export interface Line {
  label: string;
  color: string;  // a custom property of the style sheet, "--cache"
  values: (number | null)[];
}

/** Steps between ticks of an axis of bytes: 1, 2, 4 … of each unit, so that labels are round. */
export const BYTE_STEPS = Array.from({ length: 60 }, (_value, i) => 2 ** i);

const HEIGHT = 180;
const AXIS_FONT = '11px system-ui, sans-serif';

/** The colours of the scheme that the browser prefers; anew when that changes. */
function useScheme(): boolean {
  const query = window.matchMedia('(prefers-color-scheme: dark)');
  const [dark, setDark] = useState(query.matches);
  useEffect(() => {
    const changed = () => setDark(query.matches);
    query.addEventListener('change', changed);
    return () => query.removeEventListener('change', changed);
  }, []);
  return dark;
}

function colour(name: string): string {
  return window.getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

// Values one upon the other, so that the outline is the sum; a gap in one is a gap in all.
function stacked(lines: readonly Line[]): (number | null)[][] {
  const sums: (number | null)[][] = [];
  lines.forEach((line, i) => {
    const below = sums[i - 1];
    sums.push(line.values.map((value, at) => {
      const under = below ? below[at] : 0;
      return value === null || under === null || under === undefined ? null : value + under;
    }));
  });
  return sums;
}

// The largest stands behind the others.
function dataOf(times: readonly number[], lines: readonly Line[],
  stack: boolean): uPlot.AlignedData {
  const values = stack ? stacked(lines).reverse() : lines.map((line) => line.values);
  return [times as number[], ...values] as uPlot.AlignedData;
}

export function Chart(props: {
  label: string; times: number[]; lines: Line[]; seconds: number; stack?: boolean;
  format: (value: number | undefined | null) => string;
  tick?: (value: number | undefined | null) => string;
  steps?: number[];  // between ticks
  floor?: number;  // the least that the axis reaches to
  top?: number;  // what it reaches to in any case
}) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | undefined>(undefined);
  const dark = useScheme();
  const stack = props.stack ?? false;
  const last = props.times[props.times.length - 1] ?? 0;
  // What the scales' functions look at: uPlot keeps those that it was made with.
  const now = useRef({ last, from: 0 });
  // A minute at least, and not more than there is.
  const begun = Math.min(props.times[0] ?? 0, last - 60);
  now.current = { last, from: Math.max(last - props.seconds, begun) };

  useEffect(() => {
    const parent = place.current;
    if (!parent) return undefined;
    const ordered = stack ? [...props.lines].reverse() : props.lines;
    const grid = { stroke: colour('--line'), width: 1 };
    const axis = { stroke: colour('--muted'), font: AXIS_FONT, grid, ticks: { show: false } };
    const made = new uPlot({
      width: parent.clientWidth, height: HEIGHT, pxAlign: 1,
      legend: { show: false }, cursor: { show: false },
      padding: [8, 28, 0, 0],
      scales: {
        x: { time: true, range: () => [now.current.from, now.current.last] },
        y: { range: (_plot, _low, high) => [0, props.top ??
          Math.max((high || 0) * 1.1, props.floor ?? 1)] },
      },
      axes: [
        { ...axis, space: 70, size: 24, values: (_plot, ticks) => ticks.map(clock) },
        { ...axis, size: 66, space: 34, ...(props.steps ? { incrs: props.steps } : {}),
          values: (_plot, ticks) => ticks.map((value) => (props.tick ?? props.format)(value)) },
      ],
      // Each is filled down to the one below it and no further.
      bands: !stack ? [] : ordered.slice(1).map((_line, i): uPlot.Band => (
        { series: [i + 1, i + 2] })),
      series: [{}, ...ordered.map((line) => ({
        stroke: colour(line.color), width: stack ? 1 : 1.5, points: { show: false },
        ...(stack ? { fill: colour(`${line.color}-fill`) } : {}),
      }))],
    }, dataOf(props.times, props.lines, stack), parent);
    plot.current = made;
    const observer = new ResizeObserver(() => {
      made.setSize({ width: parent.clientWidth, height: HEIGHT });
    });
    observer.observe(parent);
    return () => {
      observer.disconnect();
      made.destroy();
    };
  }, [dark, stack, props.lines.length]);

  useEffect(() => {
    plot.current?.setData(dataOf(props.times, props.lines, stack));
  }, [props.times, props.lines, stack, props.seconds]);

  return (
    <figure class="chart" data-points={props.times.length}>
      <div ref={place} class="plot" aria-hidden="true" />
      <figcaption>
        <ul class="legend" aria-label={props.label}>
          {props.lines.map((line) => (
            <li key={line.label}>
              <i style={{ background: `var(${line.color})` }} />
              {line.label} <b>{newest(line, props.format)}</b>
            </li>
          ))}
        </ul>
      </figcaption>
    </figure>
  );
}

function newest(line: Line, format: (value: number | undefined | null) => string): string {
  return line.values.length > 0 ? format(line.values[line.values.length - 1]) : NOTHING;
}

function clock(seconds: number): string {
  const date = new Date(seconds * 1000);
  const two = (value: number) => String(value).padStart(2, '0');
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

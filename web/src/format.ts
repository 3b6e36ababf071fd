// SPDX-License-Identifier: Apache-2.0
// Figures as people read them. Sizes are powers of 1024, as everywhere in Leat.

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];

export const NOTHING = '\u2013';

/** 1536 → "1.5 KiB"; what is not known → "–". */
export function bytes(value: number | undefined | null): string {
  if (value === undefined || value === null || !Number.isFinite(value)) return NOTHING;
  let unit = 0;
  let rest = value;
  while (Math.abs(rest) >= 1024 && unit < UNITS.length - 1) {
    rest /= 1024;
    unit += 1;
  }
  // 1023.97 KiB would round to 1024.0.
  if (unit > 0 && unit < UNITS.length - 1 && Math.abs(rest) >= 1023.95) {
    rest /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? String(Math.round(rest)) : rest.toFixed(1)} ${UNITS[unit] ?? ''}`;
}

/** At an axis: "512 MiB". */
export function byteTick(value: number | undefined | null): string {
  return bytes(value).replace('.0 ', ' ');
}

export function byteRate(value: number | undefined | null): string {
  const text = bytes(value);
  return text === NOTHING ? text : `${text}/s`;
}

/** 1234567 → "1,234,567", whatever the browser's language: the page is English. */
export function count(value: number | undefined | null): string {
  if (value === undefined || value === null || !Number.isFinite(value)) return NOTHING;
  return Math.round(value).toLocaleString('en-US');
}

/** Requests a second: few with a decimal. */
export function rate(value: number | undefined | null): string {
  if (value === undefined || value === null || !Number.isFinite(value)) return NOTHING;
  return value > 0 && value < 10 ? value.toFixed(1) : count(value);
}

/** At an axis: "5", "2.5". */
export function tick(value: number | undefined | null): string {
  return Number.isInteger(value) ? count(value) : rate(value);
}

/** 0.987 → "98 %": rounded down, so that 100 % means all. */
export function share(value: number | undefined | null): string {
  if (value === undefined || value === null || !Number.isFinite(value)) return NOTHING;
  if (value > 0 && value < 0.01) return '<1 %';
  // Sums of shares may miss 1 by a rounding.
  return `${Math.floor(value * 100 + 1e-9)} %`;
}

/** Seconds as "42 s", "3 min 5 s", "2 h 10 min", "5 d 3 h". */
export function duration(seconds: number | undefined | null): string {
  if (seconds === undefined || seconds === null || !Number.isFinite(seconds)) return NOTHING;
  if (seconds > 0 && seconds < 0.05) return '<0.1 s';
  if (seconds < 10) return `${Math.max(0, seconds).toFixed(1)} s`;
  const whole = Math.round(seconds);
  const parts: [number, string][] = [
    [Math.floor(whole / 86400), 'd'], [Math.floor(whole / 3600) % 24, 'h'],
    [Math.floor(whole / 60) % 60, 'min'], [whole % 60, 's'],
  ];
  const first = parts.findIndex(([value]) => value > 0);
  return parts.slice(first, first + 2).filter(([value]) => value > 0)
    .map(([value, unit]) => `${value} ${unit}`).join(' ');
}

/** How long ago, as "8 s ago", "50 min ago", "3 h ago", "2 d ago". */
export function age(seconds: number | undefined | null): string {
  if (seconds === undefined || seconds === null || !Number.isFinite(seconds)) return NOTHING;
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < 60) return `${whole} s ago`;
  if (whole < 6000) return `${Math.floor(whole / 60)} min ago`;
  if (whole < 172800) return `${Math.floor(whole / 3600)} h ago`;
  return `${Math.floor(whole / 86400)} d ago`;
}

/** "2026-11-21T14:45:56.2Z" → "2026-11-21 14:45:56", in UTC as the daemon says it. */
export function time(text: string | undefined): string {
  const match = /^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)/.exec(text ?? '');
  return match ? `${match[1]} ${match[2]}` : NOTHING;
}

/** US dollars: cents and more with two digits, less with two that count. */
export function dollars(value: number): string {
  if (!Number.isFinite(value)) return NOTHING;
  if (value === 0) return '$0';
  if (value < 0.000001) return '<$0.000001';
  if (value < 0.01) return `$${value.toFixed(Math.min(6, 1 - Math.floor(Math.log10(value))))}`;
  const cents = { minimumFractionDigits: 2, maximumFractionDigits: 2 };
  return `$${value.toLocaleString('en-US', cents)}`;
}

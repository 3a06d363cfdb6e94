/** The text that is scraped, format 0.0.4, in slices of about a millisecond. */
import { helpText, valueText } from './exposition-text.ts';
import type { MetricFamilies, MetricFamily } from './metric-families.ts';
import type { ValueSource } from './value-series.ts';

export const contentType = 'text/plain; version=0.0.4; charset=utf-8';

/** Ours. */
const sliceChars = 64 * 1024;
/** Series that show nothing cost time, too. */
const sliceSeries = 1024;

export function* expositionSlices(
  families: MetricFamilies,
  source: ValueSource,
  nowMs: number,
): Generator<string> {
  let slice = '';
  let series = 0;
  for (const family of families.all()) {
    let head = headOf(family);
    for (const text of linesOf(family, source, nowMs)) {
      if (text !== '') {
        slice += head + text;
        head = '';
      }
      series += 1;
      if (slice.length < sliceChars && series < sliceSeries) continue;
      yield slice;
      slice = '';
      series = 0;
    }
  }
  yield slice;
}

function* linesOf(family: MetricFamily, source: ValueSource, nowMs: number): Generator<string> {
  for (const series of family.values.values()) yield series.line(source);
  for (const { labels, observer } of family.observers.values()) {
    let lines = '';
    for (const [suffix, own, value] of observer.samples(nowMs)) {
      const all = [labels, own].filter((text) => text !== '').join(',');
      lines += `${family.name}${suffix}${all === '' ? '' : `{${all}}`} ${valueText(value)}\n`;
    }
    yield lines;
  }
}

function headOf({ name, type, help }: MetricFamily): string {
  return `# HELP ${name} ${helpText(help)}\n# TYPE ${name} ${type}\n`;
}

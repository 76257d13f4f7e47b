"use strict";

// The samples of the page, and how many of them a picture can show without losing a peak.

/** Columns of whole numbers, each as differences from row to row: a varint of the zigzag form plus 1, and 0 where a row
 * has none. A missing number is NaN. */
function unpack(base64, columnCount, rowCount) {
  const octets = atob(base64);
  let place = 0;
  const columns = [];
  for (let column = 0; column < columnCount; column++) {
    const values = new Float64Array(rowCount);
    let value = 0;
    for (let row = 0; row < rowCount; row++) {
      let code = 0;
      let octet;
      let weight = 1;
      do {
        octet = octets.charCodeAt(place++);
        code += (octet & 0x7f) * weight;
        weight *= 128;
      } while (octet & 0x80);
      if (code === 0) {
        values[row] = NaN;
      } else {
        value += code % 2 === 1 ? (code - 1) / 2 : -code / 2;
        values[row] = value;
      }
    }
    columns.push(values);
  }
  return columns;
}

/** The place of the first number that is not below `limit`; `numbers` rise. */
function lowerBound(numbers, limit) {
  let low = 0;
  let high = numbers.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (numbers[middle] < limit) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Numbers with the smallest and the largest of each 16, each 256, and so on: the extremes of any stretch take few steps,
 * and none is ever left out. */
class Column {
  static fanOut = 16;

  constructor(values) {
    this.values = values;
    this.levels = [];
    let [low, high] = [values, values];
    while (low.length > Column.fanOut) {
      const count = Math.floor(low.length / Column.fanOut);
      const [nextLow, nextHigh] = [new Float64Array(count), new Float64Array(count)];
      for (let block = 0; block < count; block++) {
        let [smallest, largest] = [Infinity, -Infinity];
        for (let index = block * Column.fanOut; index < (block + 1) * Column.fanOut; index++) {
          // False for NaN.
          if (low[index] < smallest) smallest = low[index];
          if (high[index] > largest) largest = high[index];
        }
        nextLow[block] = smallest;
        nextHigh[block] = largest;
      }
      this.levels.push({ low: nextLow, high: nextHigh });
      [low, high] = [nextLow, nextHigh];
    }
  }

  /** The smallest and the largest of the rows `from ..< to`; null where none has a number. */
  extremes(from, to) {
    let [smallest, largest] = [Infinity, -Infinity];
    while (from < to) {
      let [size, level] = [1, null];
      for (const wider of this.levels) {
        const next = size * Column.fanOut;
        if (from % next !== 0 || from + next > to) break;
        [size, level] = [next, wider];
      }
      const low = level ? level.low[from / size] : this.values[from];
      const high = level ? level.high[from / size] : this.values[from];
      if (low < smallest) smallest = low;
      if (high > largest) largest = high;
      from += size;
    }
    return smallest <= largest ? [smallest, largest] : null;
  }

  /** Whether the smallest of the rows `from ..< to` comes before the largest. */
  isRising(from, to, [smallest, largest]) {
    while (from < to) {
      let size = 1;
      for (const wider of this.levels) {
        const next = size * Column.fanOut;
        if (from % next !== 0 || from + next > to) break;
        if (wider.low[from / next] <= smallest || wider.high[from / next] >= largest) break;
        size = next;
      }
      if (size === 1 && this.values[from] === smallest) return true;
      if (size === 1 && this.values[from] === largest) return false;
      from += size;
    }
    return true;
  }

  /** The rows `from ..< to` with a number outside of `low … high`, rising. */
  beyond(from, to, low, high) {
    const found = [];
    while (from < to) {
      let size = 1;
      for (const wider of this.levels) {
        const next = size * Column.fanOut;
        if (from % next !== 0 || from + next > to) break;
        if (wider.low[from / next] < low || wider.high[from / next] > high) break;
        size = next;
      }
      if (size === 1 && (this.values[from] < low || this.values[from] > high)) found.push(from);
      from += size;
    }
    return found;
  }
}

// The value axis of a plot spans all numbers in view but outliers: far, alone and rare ones. `ValueAxis.swift` says more, and
// has the same rule for pictures.
const outlierRule = { tail: 0.02, reach: 3, neighbours: 5, rarity: 200, fewest: 64, sampleLimit: 8192 };

/** What the axis spans for the rows `from ..< to` of some columns, and the rows left out of each; null without a number. */
function valueAxis(columns, from, to, rule) {
  const step = Math.max(1, Math.ceil((to - from) / outlierRule.sampleLimit));
  const samples = columns.map((column) => {
    const numbers = [];
    for (let row = from; row < to; row += step) if (!Number.isNaN(column.values[row])) numbers.push(column.values[row]);
    return numbers;
  });
  const hull = union(columns.map((column, index) => {
    if (rule.keepsAll || samples[index].length < outlierRule.fewest) return column.extremes(from, to);
    const sorted = Float64Array.from(samples[index]).sort();
    const place = Math.floor(outlierRule.tail * (sorted.length - 1));
    return [sorted[place], sorted[sorted.length - 1 - place]];
  }));
  if (!hull) return null;
  let outliers = columns.map(() => []);
  if (!rule.keepsAll && hull[1] > hull[0]) {
    const wide = widened(hull, rule);
    const reach = outlierRule.reach * (wide[1] - wide[0]);
    outliers = columns.map((column, index) => {
      const count = samples[index].length;
      if (count < outlierRule.fewest) return [];
      const alone = standingAlone(column.beyond(from, to, wide[0] - reach, wide[1] + reach));
      return alone.length <= Math.max(2, Math.floor((count * step) / outlierRule.rarity)) ? alone : [];
    });
  }
  let span = union(columns.map((column, index) => {
    const starts = [from, ...outliers[index].map((row) => row + 1)];
    return union(starts.map((start, place) => column.extremes(start, outliers[index][place] ?? to)));
  }));
  if (!span) return null;
  if (rule.includes) span = [Math.min(span[0], rule.includes[0]), Math.max(span[1], rule.includes[1])];
  return { range: widened(span, rule), outliers };
}

function standingAlone(rows) {
  return rows.filter((row, place) =>
    !(row - rows[place - 1] <= outlierRule.neighbours) && !(rows[place + 1] - row <= outlierRule.neighbours));
}

/** What holds all ranges; null without any. */
function union(ranges) {
  const [lows, highs] = [0, 1].map((end) => ranges.filter((range) => range).map((range) => range[end]));
  return lows.length ? [lows.reduce((a, b) => Math.min(a, b)), highs.reduce((a, b) => Math.max(a, b))] : null;
}

/** At least as wide as the rule asks for; not below 0 for that. */
function widened([low, high], { leastSpan, leastShare }) {
  const least = Math.max(leastSpan, Math.max(Math.abs(low), Math.abs(high)) * leastShare) || 1;
  if (high - low >= least) return [low, high];
  let bottom = (low + high) / 2 - least / 2;
  if (low >= 0 && bottom < 0) bottom = 0;
  return [bottom, bottom + least];
}

/** A recorded table: its times in seconds since the start of its section, and its columns. */
class Table {
  constructor(spec, base64) {
    this.spec = spec;
    this.count = spec.count;
    const [times, ...columns] = unpack(base64, spec.columns.length + 1, spec.count);
    // A clock that was set back must not confuse a search: such rows stand where the one before does.
    let latest = -Infinity;
    this.times = times.map((time) => (latest = Math.max(latest, (time + spec.offsetNs) / 1e9)));
    this.columns = columns.map((values, index) => {
      const divisor = spec.columns[index].divisor;
      return new Column(divisor === 1 ? values : values.map((value) => value / divisor));
    });
    this.breaks = this.findBreaks();
  }

  /** Rows before which so much time passed that no line may cross it: five times what 95 of 100 steps take. */
  findBreaks() {
    const stride = Math.max(1, Math.floor(this.count / 10000));
    const steps = [];
    for (let row = 1; row < this.count; row += stride) steps.push(this.times[row] - this.times[row - 1]);
    steps.sort((a, b) => a - b);
    const limit = 5 * steps[Math.floor(0.95 * steps.length)];
    const breaks = [];
    for (let row = 1; row < this.count; row++) {
      if (this.times[row] - this.times[row - 1] > limit) breaks.push(row);
    }
    return breaks;
  }

  /** The rows from one time to another, both included: [first, the one after the last]. */
  rows(from, to) {
    const first = lowerBound(this.times, from);
    let end = lowerBound(this.times, to);
    while (end < this.count && this.times[end] <= to) end++;
    return [first, Math.max(first, end)];
  }

  /** What a picture `width` pixels wide shows of `from … to`: all samples, or the extremes of so many that each pixel has
   * at least one column, in the order in which they came. A row has the time, a number for each column or null, and which samples it stands for. */
  view(columns, from, to, width) {
    const first = Math.max(0, lowerBound(this.times, from) - 1);
    const last = Math.min(this.count, lowerBound(this.times, to) + 1);
    let bucket = 1;
    while ((last - first) / bucket > 2 * width) bucket *= 2;
    const rows = [];
    const spans = [];
    const put = (time, values, low, high) => {
      rows.push([time, ...values]);
      spans.push([low, high]);
    };
    const nothing = columns.map(() => null);
    let nextBreak = lowerBound(this.breaks, first + 1);
    let row = first;
    while (row < last) {
      let end = Math.min(last, (Math.floor(row / bucket) + 1) * bucket);
      const isBroken = this.breaks[nextBreak] <= end && this.breaks[nextBreak] < last;
      if (isBroken) end = this.breaks[nextBreak++];
      if (bucket === 1) {
        put(this.times[row], columns.map((column) => finite(column.values[row])), row, end);
      } else {
        const pairs = columns.map((column) => {
          const pair = column.extremes(row, end);
          return !pair || column.isRising(row, end, pair) ? pair : pair.reverse();
        });
        put(this.times[row], pairs.map((pair) => pair && pair[0]), row, end);
        put(this.times[end - 1], pairs.map((pair) => pair && pair[1]), row, end);
      }
      if (isBroken) put((this.times[end - 1] + this.times[end]) / 2, nothing, end, end);
      row = end;
    }
    return { rows, spans, bucket };
  }
}

function finite(value) {
  return Number.isNaN(value) ? null : value;
}

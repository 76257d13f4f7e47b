"use strict";

// Plots of a section. Those of all sections show the same stretch of time.

const timeSteps = [
  0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600,
  900, 1800, 3600, 7200, 14400, 21600, 43200, 86400,
];

/** Seconds as 1:02:03.5, with as many decimals as `step` needs. */
function elapsed(seconds, step) {
  const decimals = Math.max(0, Math.min(6, Math.ceil(-Math.log10(step) - 1e-9)));
  const scale = 10 ** decimals;
  const total = Math.round(Math.abs(seconds) * scale);
  const sign = seconds < 0 && total > 0 ? "−" : "";
  const whole = Math.floor(total / scale);
  const fraction = decimals ? "." + String(total % scale).padStart(decimals, "0") : "";
  const two = (number) => String(number).padStart(2, "0");
  const hours = Math.floor(whole / 3600);
  const minutes = Math.floor(whole / 60) % 60;
  return sign + (hours ? hours + ":" + two(minutes) : minutes) + ":" + two(whole % 60) + fraction;
}

/** The wall clock of a moment, to the millisecond. */
function clock(startNs, seconds) {
  const milliseconds = Number(BigInt(startNs) / 1000n) / 1000 + seconds * 1000;
  const date = new Date(milliseconds);
  return Number.isNaN(date.getTime()) ? "?" : date.toISOString().replace("T", " ").replace("Z", " UTC");
}

function timeTicks(from, to, pixels) {
  const wanted = ((to - from) / Math.max(1, pixels)) * 90;
  const step = timeSteps.find((candidate) => candidate >= wanted) || 86400 * Math.ceil(wanted / 86400);
  const ticks = [];
  for (let number = Math.ceil(from / step); number * step <= to; number++) {
    ticks.push({ v: number * step, label: elapsed(number * step, step) });
  }
  return ticks;
}

/** Numbers of a plot: four digits that say something. */
function number(value) {
  if (value === null || value === undefined) return "–";
  const magnitude = Math.abs(value);
  if (magnitude !== 0 && (magnitude < 1e-3 || magnitude >= 1e9)) return value.toExponential(3);
  return value.toLocaleString("en", { maximumFractionDigits: magnitude >= 1000 ? 1 : 4 }).replace("-", "−");
}

function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
}

/** One plot. */
class Chart {
  constructor(timeline, spec, table) {
    this.timeline = timeline;
    this.spec = spec;
    this.table = table;
    this.columns = spec.series.map((series) => table.columns[series.column]);
    this.element = element("figure", { class: "chart", tabindex: 0, role: "group", "aria-label": this.summary() });
    this.readout = element("output", { class: "readout" });
    this.note = element("p", { class: "quiet" });
    this.place = element("div", { class: "plot" });
    this.element.append(this.caption(), this.place, this.note);
    this.element.addEventListener("keydown", (event) => timeline.key(event));
  }

  /** What a person who does not see it is told. */
  summary() {
    const parts = this.spec.series.map((series, index) => {
      const range = this.columns[index].extremes(0, this.table.count);
      return range ? `${series.label} ${number(range[0])} to ${number(range[1])} ${this.spec.unit}` : `${series.label} empty`;
    });
    return `${this.spec.title}, ${this.table.count} samples: ${parts.join(", ")}`;
  }

  caption() {
    const caption = element("figcaption");
    const unit = this.spec.unit ? ` (${this.spec.unit})` : "";
    caption.append(element("h4", {}, this.spec.title + unit));
    if (this.spec.series.length > 1) {
      this.spec.series.forEach((series, index) => {
        const button = element("button", { class: `series series-${index % 6}`, "aria-pressed": series.isShown }, series.label);
        button.addEventListener("click", () => {
          series.isShown = !series.isShown;
          button.setAttribute("aria-pressed", series.isShown);
          this.redraw({ visibility: this.spec.series.map((each) => each.isShown) });
        });
        caption.append(button);
      });
    }
    caption.append(this.readout);
    return caption;
  }

  /** Makes the plot; its place must be in the page. */
  open() {
    const labels = ["time", ...this.spec.series.map((series) => series.label)];
    const isDots = this.spec.style === "dots";
    const rows = this.load();
    this.graph = new Dygraph(this.place, rows, {
      labels,
      valueRange: this.axis.range,
      visibility: this.spec.series.map((series) => series.isShown),
      dateWindow: this.timeline.window,
      legend: "never",
      stepPlot: this.spec.style === "steps",
      drawPoints: isDots,
      strokeWidth: isDots ? 0 : 1.25,
      pointSize: 2.5,
      highlightCircleSize: 3.5,
      xRangePad: 0,
      rightGap: 24,
      yRangePad: 6,
      gridLineWidth: 1,
      axes: {
        x: { ticker: timeTicks, axisLabelFormatter: (value) => elapsed(value, 1) },
        y: { axisLabelFormatter: number, axisLabelWidth: 62, pixelsPerLabel: 28 },
      },
      ...this.colors(),
      underlayCallback: (canvas, area, graph) => this.underlay(canvas, area, graph),
      plugins: [{ activate: () => ({ didDrawChart: (event) => this.drawOutliers(event.drawingContext, event.dygraph) }) }],
      highlightCallback: (event, x) => this.timeline.point(this, x),
      unhighlightCallback: () => this.timeline.point(this, null),
      drawCallback: (graph, isFirst) => {
        if (!isFirst && !this.isLoading) this.timeline.follow(graph);
      },
    });
  }

  colors() {
    const series = this.spec.series.map((_, index) => color(`series-${index % 6}`));
    return { colors: series, axisLineColor: color("line"), gridLineColor: color("grid") };
  }

  /** The rows of what the timeline shows. */
  load() {
    const [from, to] = this.timeline.window;
    const width = Math.max(100, this.place.clientWidth - 70);
    const view = this.table.view(this.columns, from, to, width);
    this.rows = view.rows;
    this.spans = view.spans;
    this.bucket = view.bucket;
    this.holdLastStep(to);
    this.axis = this.chooseAxis(from, to);
    this.note.textContent = this.says();
    return this.rows.length > 0 ? this.rows : [[0, ...this.columns.map(() => null)]];
  }

  /** The last step lasts. */
  holdLastStep(to) {
    const last = this.rows.length - 1;
    if (this.spec.style !== "steps" || last < 0 || this.spans[last][1] !== this.table.count || this.rows[last][0] >= to) return;
    this.rows.push([to, ...this.rows[last].slice(1)]);
    this.spans.push(this.spans[last]);
  }

  /** Over the series that are shown; a step lasts until the next one. */
  chooseAxis(from, to) {
    const [first, end] = this.table.rows(from, to);
    const start = this.spec.style === "steps" ? Math.max(0, first - 1) : first;
    const shown = this.columns.filter((_, index) => this.spec.series[index].isShown);
    const axis = valueAxis(shown, start, end, this.spec.axis) || { range: [0, 1], outliers: shown.map(() => []) };
    this.outliers = shown.flatMap((column, index) => axis.outliers[index].map((row) => [this.table.times[row], column.values[row]]));
    return axis;
  }

  says() {
    const samples = (count) => `${count.toLocaleString("en")} sample${count === 1 ? "" : "s"}`;
    const parts = [samples(this.table.count)];
    if (this.bucket > 1) parts.push(`each column shows the smallest and largest of ${this.bucket}: zoom in for the samples`);
    if (this.outliers.length > 0) {
      const range = union(this.outliers.map(([, value]) => [value, value]));
      const values = range[0] === range[1] ? number(range[0]) : `${number(range[0])} … ${number(range[1])}`;
      const what = this.outliers.length > 1 ? "them" : "it";
      parts.push(`${samples(this.outliers.length)} beyond the axis: ${values}; zoom in to see ${what}`);
    }
    if (this.showsRejected()) parts.push("grey: windows without good beats");
    return parts.join("; ");
  }

  showsRejected() {
    return this.table.spec.name === "beats" && this.timeline.section.marks.some((mark) => mark.kind === "rejected");
  }

  redraw(options = {}) {
    this.isLoading = true;
    const file = this.load();
    this.graph.updateOptions({ file, dateWindow: this.timeline.window, valueRange: this.axis.range, ...options });
    this.isLoading = false;
  }

  underlay(canvas, area, graph) {
    for (const mark of this.timeline.section.marks) {
      // What is no good for beats is good all the same, and a pause of one stream may be its way.
      if (mark.kind === "pause" || (mark.kind === "rejected" && !this.showsRejected())) continue;
      const left = graph.toDomXCoord(mark.from);
      const right = graph.toDomXCoord(mark.to);
      if (right < area.x || left > area.x + area.w) continue;
      const start = Math.max(area.x, left);
      const width = Math.max(2, Math.min(right, area.x + area.w) - start);
      canvas.fillStyle = color(mark.kind);
      canvas.fillRect(start, area.y, width, area.h);
    }
  }

  /** A triangle at the edge that an outlier lies beyond, above lines and grid. */
  drawOutliers(canvas, graph) {
    const area = graph.getArea();
    canvas.fillStyle = color("ink");
    const last = { top: -Infinity, bottom: -Infinity };
    for (const [time, value] of [...this.outliers].sort((a, b) => a[0] - b[0])) {
      const x = graph.toDomXCoord(time);
      const isHigh = value > this.axis.range[1];
      const edge = isHigh ? "top" : "bottom";
      // One where several would lie upon each other.
      if (x - last[edge] < 6) continue;
      last[edge] = x;
      const [tip, foot] = isHigh ? [area.y, area.y + 7] : [area.y + area.h, area.y + area.h - 7];
      canvas.beginPath();
      canvas.moveTo(x, tip);
      canvas.lineTo(x - 4.5, foot);
      canvas.lineTo(x + 4.5, foot);
      canvas.fill();
    }
  }

  /** Says what is at a moment; null says nothing. */
  point(time) {
    if (time === null || this.rows.length === 0) {
      this.graph.clearSelection();
      this.readout.textContent = "";
      return;
    }
    let row = lowerBound(this.rows.map((candidate) => candidate[0]), time);
    if (row === this.rows.length || (row > 0 && time - this.rows[row - 1][0] < this.rows[row][0] - time)) row -= 1;
    this.graph.setSelection(row);
    const [from, to] = this.spans[row];
    const values = this.spec.series.flatMap((series, index) => {
      if (!series.isShown) return [];
      const range = this.columns[index].extremes(from, to);
      const text = !range ? "–" : range[0] === range[1] ? number(range[0]) : `${number(range[0])} … ${number(range[1])}`;
      return [this.spec.series.length > 1 ? `${series.label} ${text}` : text];
    });
    const unit = this.spec.unit ? ` ${this.spec.unit}` : "";
    this.readout.textContent = values.join(", ") + unit;
  }
}

/** The stretch of time that all plots of a section show; the other sections follow. */
class Timeline {
  constructor(section, tables) {
    this.section = section;
    this.whole = [0, Math.max(section.seconds, 1e-3)];
    this.window = section.window || [...this.whole];
    this.peers = [this];
    this.charts = section.charts.map((spec) => new Chart(this, spec, tables[spec.table]));
    this.range = element("output", { class: "range" });
    this.bar = this.toolbar();
  }

  toolbar() {
    const bar = element("div", { class: "toolbar", role: "toolbar", "aria-label": "Time shown" });
    const buttons = [
      ["−", "Zoom out", () => this.zoom(2)],
      ["+", "Zoom in", () => this.zoom(0.5)],
      ["◀", "Earlier", () => this.pan(-0.5)],
      ["▶", "Later", () => this.pan(0.5)],
      ["All", "Show all", () => this.show(...this.whole)],
    ];
    for (const [label, title, action] of buttons) {
      const button = element("button", { title, "aria-label": title }, label);
      button.addEventListener("click", action);
      bar.append(button);
    }
    bar.append(this.range);
    return bar;
  }

  open() {
    for (const chart of this.charts) chart.open();
    this.tell();
    window.addEventListener("resize", () => this.redraw());
  }

  redraw(options) {
    for (const chart of this.charts) chart.redraw(options && options(chart));
    this.tell();
  }

  /** Shows a stretch in all sections, as far as there is one. */
  show(from, to) {
    for (const timeline of this.peers) timeline.showOwn(from, to);
  }

  showOwn(from, to) {
    const length = Math.min(Math.max(to - from, 1e-4), this.whole[1]);
    const start = Math.min(Math.max(from, 0), this.whole[1] - length);
    this.window = [start, start + length];
    this.redraw();
  }

  zoom(factor) {
    const [from, to] = this.window;
    const middle = (from + to) / 2;
    const half = ((to - from) / 2) * factor;
    this.show(middle - half, middle + half);
  }

  pan(share) {
    const [from, to] = this.window;
    this.show(from + (to - from) * share, to + (to - from) * share);
  }

  key(event) {
    if (event.target.tagName === "BUTTON" || event.ctrlKey || event.metaKey || event.altKey) return;
    const actions = {
      ArrowLeft: () => this.pan(-0.25),
      ArrowRight: () => this.pan(0.25),
      "+": () => this.zoom(0.5),
      "=": () => this.zoom(0.5),
      "-": () => this.zoom(2),
      0: () => this.show(...this.whole),
      Home: () => this.show(...this.whole),
    };
    const action = actions[event.key];
    if (!action) return;
    action();
    event.preventDefault();
  }

  /** One plot was zoomed or moved by mouse or finger: the others follow. A double click shows all. */
  follow(graph) {
    const [from, to] = graph.isZoomed("x") ? graph.xAxisRange() : this.whole;
    if (from === this.window[0] && to === this.window[1]) return;
    this.show(from, to);
  }

  point(source, time) {
    for (const chart of this.charts) chart.point(time);
    if (time === null) return this.tell();
    const step = (this.window[1] - this.window[0]) / 1000;
    const marks = this.section.marks.filter((mark) => mark.from - step <= time && time <= mark.to + step);
    this.range.textContent = [
      `${elapsed(time, Math.min(1, step))} = ${clock(this.section.startNs, time)}`, ...marks.map((mark) => mark.text),
    ].join("; ");
  }

  tell() {
    const [from, to] = this.window;
    const step = Math.min(1, (to - from) / 100);
    this.range.textContent = `${elapsed(from, step)} … ${elapsed(to, step)} since ${clock(this.section.startNs, 0)}`;
  }
}

"use strict";

// Plots of the samples that `ringtap capture --to ws:` sends. Each message is a line of JSON: the guide "Samples
// for other programs" describes them.

/** Lengths of the plotted stretch, in seconds. */
const windows = [10, 30, 60, 300];
/** Rows that a table keeps at most: five minutes at 400 per second. */
const rowLimit = 1 << 17;
/** Pause before the next attempt to connect, in milliseconds. */
const reconnectPauses = [500, 1000, 2000, 5000];
/** Least time from one drawing to the next, in milliseconds. */
const drawPause = 30;
const clock = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });

/** Creates an element with attributes and children. */
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/** Formats a value with the digits that say something. */
function number(value) {
  if (value === null || Number.isNaN(value)) return "–";
  const magnitude = Math.abs(value);
  if (magnitude !== 0 && (magnitude < 1e-3 || magnitude >= 1e9)) return value.toExponential(2);
  const digits = magnitude >= 1000 ? 0 : magnitude >= 100 ? 1 : magnitude >= 10 ? 2 : 3;
  return value.toLocaleString("en", { maximumFractionDigits: digits }).replace("-", "−");
}

/** Formats a number of rows per second. */
function rate(perSecond) {
  return perSecond.toLocaleString("en", { maximumFractionDigits: perSecond >= 100 ? 0 : 1 });
}

/** A column's name without its unit. */
function label(column) {
  return column.name.replace(/_/g, " ").replace(new RegExp(` ${column.unit}$`, "i"), "");
}

function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
}

/** Milliseconds since the Unix epoch of nanoseconds that are written as text. */
function milliseconds(text) {
  return Number(text) / 1e6;
}

function title(table) {
  const names = { ppg: "PPG", spo2: "SpO₂ light", ecg: "ECG", rr_intervals: "RR intervals", samples: "Ticks" };
  return names[table] ?? table[0].toUpperCase() + table.slice(1).replaceAll("_", " ");
}

/** Steps of 1, 2 or 5 times a power of ten. */
function niceStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return power * ([1, 2, 5].find((factor) => factor * power >= least * 0.999) ?? 10);
}

/** The rows of a table, with the oldest overwritten. */
class Rows {
  constructor(columnCount) {
    this.capacity = 1024;
    this.end = 0;
    this.count = 0;
    this.times = new Float64Array(this.capacity);
    this.columns = Array.from({ length: columnCount }, () => new Float64Array(this.capacity));
  }

  add(time, values) {
    if (this.count === this.capacity && this.capacity < rowLimit) this.grow();
    const place = this.end % this.capacity;
    this.times[place] = time;
    values.forEach((value, column) => (this.columns[column][place] = value));
    this.end += 1;
    this.count = Math.min(this.count + 1, this.capacity);
  }

  grow() {
    const start = this.end - this.count;
    const moved = (old) => {
      const made = new Float64Array(this.capacity * 2);
      for (let row = 0; row < this.count; row++) made[row] = old[(start + row) % this.capacity];
      return made;
    };
    this.times = moved(this.times);
    this.columns = this.columns.map(moved);
    this.end = this.count;
    this.capacity *= 2;
  }

  /** Calls `body` with time and row of each row from a time on, the latest first. */
  since(from, body) {
    for (let row = this.end - 1; row >= this.end - this.count; row--) {
      const place = row % this.capacity;
      if (this.times[place] < from) return;
      body(this.times[place], place);
    }
  }

  get last() {
    return this.count > 0 ? this.times[(this.end - 1) % this.capacity] : null;
  }
}

/** Arrivals of the last seconds. */
class Rate {
  constructor() {
    this.arrivals = [];
  }

  add(now) {
    this.arrivals.push(now);
  }

  perSecond(now) {
    const first = this.arrivals.findIndex((time) => time > now - 5000);
    this.arrivals.splice(0, first < 0 ? this.arrivals.length : first);
    if (this.arrivals.length < 2) return 0;
    // Rows arrive in batches, so the time since the first one is used.
    return this.arrivals.length / Math.max(1, (now - this.arrivals[0]) / 1000);
  }
}

/** A plot of the columns of a table that have one unit. */
class Chart {
  constructor(table, name, unit, columns) {
    this.table = table;
    this.unit = unit;
    this.series = columns.map((column, index) => ({
      ...column,
      color: `series-${index % 6}`,
      // Of the light values, only the first is the signal.
      isShown: !(["ppg", "spo2"].includes(table.name) && /^(led|red)_/.test(column.name)),
    }));
    this.range = null;
    this.canvas = element("canvas");
    this.rate = element("output", { class: "readout quiet" });
    const caption = element("figcaption", {}, element("h4", {}, name + (unit ? ` (${unit})` : "")));
    for (const series of this.series) caption.append(this.button(series));
    caption.append(this.rate);
    // Until a sensor has sent one of the values.
    this.element = element("figure", { class: "chart", hidden: "" }, caption, this.canvas);
    new ResizeObserver(() => this.resize()).observe(this.canvas);
  }

  button(series) {
    series.value = element("b", {}, "–");
    const button = element("button", { class: `series ${series.color}`, "aria-pressed": series.isShown }, label(series), series.value);
    button.addEventListener("click", () => {
      series.isShown = !series.isShown;
      button.setAttribute("aria-pressed", series.isShown);
      this.range = null;
    });
    return button;
  }

  /** Shows the plot if there is a first value. */
  appear(values) {
    if (!this.element.hidden) return;
    this.element.hidden = this.series.every((series) => Number.isNaN(values[series.place]));
  }

  resize() {
    const scale = devicePixelRatio || 1;
    this.width = this.canvas.clientWidth;
    this.height = this.canvas.clientHeight;
    this.canvas.width = Math.round(this.width * scale);
    this.canvas.height = Math.round(this.height * scale);
    this.scale = scale;
  }

  /** Draws the rows from `from` to `to`, in milliseconds since the epoch. */
  draw(from, to, marks, palette) {
    if (!this.width) return;
    const area = { left: 66, top: 6, right: this.width - 12, bottom: this.height - 20 };
    const canvas = this.canvas.getContext("2d");
    canvas.setTransform(this.scale, 0, 0, this.scale, 0, 0);
    canvas.clearRect(0, 0, this.width, this.height);
    const x = (time) => area.left + ((time - from) / (to - from)) * (area.right - area.left);
    const shown = this.series.filter((series) => series.isShown);
    this.follow(from, shown);
    const [low, high] = this.range ?? [0, 1];
    const y = (value) => area.bottom - ((value - low) / (high - low)) * (area.bottom - area.top);
    canvas.font = "12px system-ui, sans-serif";
    this.drawAxes(canvas, area, from, to, x, y, palette);
    canvas.save();
    canvas.beginPath();
    canvas.rect(area.left, 0, area.right - area.left, this.height);
    canvas.clip();
    for (const mark of marks) {
      canvas.fillStyle = palette[mark.kind];
      const start = x(mark.from);
      canvas.fillRect(start, area.top, Math.max(1, x(mark.to ?? to) - start), area.bottom - area.top);
    }
    for (const series of shown) this.drawLine(canvas, area, from, x, y, series, marks, palette[series.color]);
    canvas.restore();
  }

  /** Adapts the range to the values in view: grows at once, and shrinks slowly, so that it does not flicker. */
  follow(from, shown) {
    let [low, high] = [Infinity, -Infinity];
    const rows = this.table.rows;
    for (const series of shown) {
      const column = rows.columns[series.place];
      rows.since(from, (_, row) => {
        const value = column[row];
        if (value < low) low = value;
        if (value > high) high = value;
      });
    }
    if (low > high) return;
    if (!this.unit && low >= 0 && high <= 1) [low, high] = [0, 1];
    const least = Math.max(Math.abs(high) * 1e-3, this.unit === "bpm" ? 10 : 1e-6);
    if (high - low < least) [low, high] = [(low + high - least) / 2, (low + high + least) / 2];
    const pad = (high - low) * 0.08;
    [low, high] = [low - pad, high + pad];
    if (!this.range) {
      this.range = [low, high];
      return;
    }
    const [before, after] = this.range;
    this.range = [low < before ? low : before + (low - before) * 0.04, high > after ? high : after + (high - after) * 0.04];
  }

  drawAxes(canvas, area, from, to, x, y, palette) {
    canvas.strokeStyle = palette.grid;
    canvas.fillStyle = palette.quiet;
    canvas.lineWidth = 1;
    canvas.beginPath();
    canvas.textAlign = "right";
    canvas.textBaseline = "middle";
    if (this.range) {
      const [low, high] = this.range;
      const step = niceStep(((high - low) / (area.bottom - area.top)) * 28);
      for (let tick = Math.ceil(low / step); tick * step <= high; tick++) {
        const place = Math.round(y(tick * step)) + 0.5;
        canvas.moveTo(area.left, place);
        canvas.lineTo(area.right, place);
        // Without the rounding error of the product.
        canvas.fillText(number(Number((tick * step).toPrecision(12))), area.left - 8, place);
      }
    }
    canvas.textAlign = "center";
    canvas.textBaseline = "alphabetic";
    const steps = [1, 2, 5, 10, 15, 30, 60, 120].map((seconds) => seconds * 1000);
    const least = ((to - from) / (area.right - area.left)) * 80;
    const step = steps.find((candidate) => candidate >= least) ?? 300_000;
    for (let time = Math.ceil(from / step) * step; time <= to; time += step) {
      const place = Math.round(x(time)) + 0.5;
      canvas.moveTo(place, area.top);
      canvas.lineTo(place, area.bottom);
      if (place > area.left + 20 && place < area.right - 20) {
        canvas.fillText(clock.format(time), place, this.height - 5);
      }
    }
    canvas.stroke();
  }

  /** Draws a line, or of each pixel the smallest and the largest value. */
  drawLine(canvas, area, from, x, y, series, marks, ink) {
    const rows = this.table.rows;
    const column = rows.columns[series.place];
    const points = [];
    rows.since(from, (time, row) => {
      if (!Number.isNaN(column[row])) points.push(time, column[row]);
    });
    canvas.strokeStyle = ink;
    canvas.fillStyle = ink;
    canvas.lineWidth = 1.5;
    canvas.lineJoin = "round";
    canvas.beginPath();
    let [pixel, low, high, later] = [NaN, 0, 0, Infinity];
    for (let place = 0; place < points.length; place += 2) {
      const [time, value] = [points[place], points[place + 1]];
      const now = Math.round(x(time) * 2) / 2;
      if (now === pixel && value >= low && value <= high) continue;
      [low, high] = now === pixel ? [Math.min(low, value), Math.max(high, value)] : [value, value];
      pixel = now;
      // The line does not cross a stretch without samples.
      if (marks.some((mark) => time <= mark.from && later >= (mark.to ?? Infinity))) canvas.moveTo(now, y(value));
      else canvas.lineTo(now, y(value));
      later = time;
    }
    canvas.stroke();
    if (points.length / 2 > (area.right - area.left) / 8) return;
    for (let place = 0; place < points.length; place += 2) {
      canvas.beginPath();
      canvas.arc(x(points[place]), y(points[place + 1]), 2.5, 0, 7);
      canvas.fill();
    }
  }

  /** Writes the latest values. */
  write(now, hasDelay) {
    for (const series of this.series) series.value.textContent = number(this.table.latest[series.place] ?? NaN);
    const perSecond = this.table.rate.perSecond(now);
    const delay = hasDelay && this.table.delay !== null ? `, delay ${Math.round(this.table.delay)} ms` : "";
    this.rate.textContent = perSecond > 0 ? `${rate(perSecond)} per second${delay}` : "no samples";
  }
}

/** A table of a device, with a plot for each unit. */
class Table {
  constructor(line) {
    this.name = line.table;
    this.signature = JSON.stringify(line.columns);
    const [time, ...columns] = line.columns;
    this.time = time.name;
    // Other times are only of use to programs, and counts if the same value has a unit.
    const isOther = (column) => columns.some((other) => other !== column && other.unit !== "ns" && label(other) === label(column));
    const numbers = columns.filter((column) =>
      column.unit !== "ns" && !column.dtype.startsWith("<U") && !(column.unit === "counts" && isOther(column)));
    this.numbers = numbers.map((column, place) => ({ name: column.name, unit: column.unit ?? "", place }));
    this.words = columns.filter((column) => column.dtype.startsWith("<U")).map((column) => column.name);
    this.rows = new Rows(this.numbers.length);
    this.rate = new Rate();
    this.latest = [];
    this.delay = null;
    this.charts = this.makeCharts();
    this.text = element("p", { class: "words" });
    this.element = element("div", {}, ...this.charts.map((chart) => chart.element), this.text);
  }

  makeCharts() {
    const charts = [];
    const name = title(this.name);
    const first = this.numbers[0];
    for (const unit of new Set(this.numbers.map((column) => column.unit))) {
      const columns = this.numbers.filter((column) => column.unit === unit);
      // Numbers without a unit are not comparable.
      for (const group of unit ? [columns] : columns.map((column) => [column])) {
        const isNamed = group.length === 1 && group[0] !== first;
        charts.push(new Chart(this, isNamed ? `${name}: ${label(group[0])}` : name, unit, group));
      }
    }
    return charts;
  }

  take(line, now) {
    const time = milliseconds(line[this.time]);
    this.latest = this.numbers.map(({ name }) => (line[name] === null ? NaN : Number(line[name])));
    this.rows.add(time, this.latest);
    for (const chart of this.charts) chart.appear(this.latest);
    this.rate.add(now);
    // A frame of several samples arrives after the time of the first one.
    const delay = now - (line.frame_time_ns === undefined ? time : milliseconds(line.frame_time_ns));
    this.delay = this.delay === null ? delay : this.delay + (delay - this.delay) * 0.1;
    if (this.words.length > 0) {
      this.text.textContent = this.words.map((name) => `${name.replace(/_/g, " ")}: ${line[name] ?? "–"}`).join(", ");
    }
  }
}

/** A sensor. */
class Device {
  constructor(line) {
    this.tables = new Map();
    this.rows = element("p", { class: "quiet" }, `${line.kind} ${line.device}`);
    this.link = element("output", { class: "link" });
    const header = element("header", {}, element("h2", {}, line.name ?? line.device), this.rows, this.link);
    this.element = element("article", {}, header);
    this.marks = [];
  }

  describe(line) {
    const old = this.tables.get(line.table);
    // The same table again: the page has reconnected, and the plots go on.
    if (old?.signature === JSON.stringify(line.columns)) return;
    old?.element.remove();
    const table = new Table(line);
    this.tables.set(line.table, table);
    this.element.append(table.element);
    this.say("");
  }

  say(text, isLost = false) {
    this.link.textContent = text;
    this.link.classList.toggle("lost", isLost);
  }

  gap(line) {
    const time = milliseconds(line.time_ns);
    if (line.state === "lost") {
      this.marks.push({ kind: "gap", from: time, to: null });
      this.say(`link lost: ${line.cause}`, true);
    } else {
      this.closeMarks("gap", time);
      this.say("link back");
    }
  }

  closeMarks(kind, time) {
    for (const mark of this.marks) if (mark.kind === kind && mark.to === null) mark.to = Math.max(time, mark.from);
  }

  /** Marks the time from the latest sample to the next one. */
  miss() {
    const last = Math.max(...[...this.tables.values()].map((table) => table.rows.last ?? 0));
    if (last > 0) this.marks.push({ kind: "loss", from: last, to: null });
  }

  take(line, now) {
    const table = this.tables.get(line.table);
    if (!table) return null;
    table.take(line, now);
    if (this.marks.length > 0) this.closeMarks("loss", table.rows.last);
    return table;
  }

  forget(before) {
    this.marks = this.marks.filter((mark) => mark.to === null || mark.to > before);
  }
}

/** The page: one WebSocket, and the devices that it describes. */
class Live {
  constructor() {
    this.devices = new Map();
    this.missed = 0;
    this.samples = 0;
    this.seconds = 30;
    this.isPaused = false;
    /** The right edge of the plots while they stand still. */
    this.stoppedAt = null;
    this.attempts = 0;
    /** Difference of the browser's clock and the latest sample's time, at its smallest. */
    this.lag = null;
    // Elsewhere, the two clocks may differ.
    this.hasDelay = /^(localhost|127\.[\d.]+|\[::1\])$/.test(location.hostname);
    this.rate = new Rate();
    this.makePage();
    this.readPalette();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.readPalette());
    this.connect();
    setInterval(() => this.write(), 250);
    let drawnAt = 0;
    const draw = (now) => {
      if (now - drawnAt >= drawPause) {
        this.draw();
        drawnAt = now;
      }
      requestAnimationFrame(draw);
    };
    requestAnimationFrame(draw);
  }

  makePage() {
    this.figures = Object.fromEntries(["Connection", "Samples", "Missed"].map((name) => [name, element("dd", {}, "–")]));
    const tiles = Object.entries(this.figures).map(([name, value]) => element("div", {}, element("dt", {}, name), value));
    this.stateTile = tiles[0];
    this.missedTile = tiles[2];
    this.figures.Connection.setAttribute("role", "status");
    const toolbar = element("div", { class: "toolbar", role: "group", "aria-label": "Plots" });
    this.windowButtons = windows.map((seconds) => {
      const label = seconds < 120 ? `${seconds} s` : `${seconds / 60} min`;
      const button = element("button", { "aria-pressed": seconds === this.seconds }, label);
      button.addEventListener("click", () => this.show(seconds));
      return button;
    });
    this.pauseButton = element("button", { "aria-pressed": false }, "Pause");
    this.pauseButton.addEventListener("click", () => this.pause());
    toolbar.append(...this.windowButtons, this.pauseButton);
    this.place = element("div");
    const empty = element("p", { class: "quiet" }, "No sensor yet. Its plots appear when its samples arrive.");
    this.place.append(empty);
    document.getElementById("page").replaceChildren(
      element("header", {}, element("h1", {}, "Live samples")),
      element("dl", { class: "summary" }, ...tiles), toolbar, this.place,
      element("footer", { class: "quiet" },
        "Sent by ringtap capture --to ws:. The recording has every sample, also those that this page missed. Not medical advice."));
  }

  readPalette() {
    const names = ["grid", "quiet", "gap", "loss", ...Array.from({ length: 6 }, (_, index) => `series-${index}`)];
    this.palette = Object.fromEntries(names.map((name) => [name, color(name)]));
  }

  show(seconds) {
    this.seconds = seconds;
    this.windowButtons.forEach((button, place) => button.setAttribute("aria-pressed", windows[place] === seconds));
  }

  pause() {
    this.stoppedAt = this.isPaused ? null : this.edge();
    this.isPaused = !this.isPaused;
    this.pauseButton.setAttribute("aria-pressed", this.isPaused);
  }

  // The connection.

  connect() {
    this.say("connecting", "");
    const socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/`);
    socket.addEventListener("open", () => {
      this.attempts = 0;
      this.lag = null;
      if (!this.isPaused) this.stoppedAt = null;
      this.say("live", "live");
    });
    socket.addEventListener("message", (event) => this.take(event.data));
    socket.addEventListener("close", (event) => this.closed(event));
  }

  closed(event) {
    this.say(event.code === 1000 ? "recording ended" : event.reason || "disconnected", event.code === 1000 ? "" : "broken");
    this.stoppedAt ??= this.edge();
    for (const device of this.devices.values()) device.miss();
    const pause = reconnectPauses[Math.min(this.attempts, reconnectPauses.length - 1)];
    this.attempts += 1;
    setTimeout(() => this.connect(), event.code === 1000 ? Math.max(pause, 2000) : pause);
  }

  say(text, kind) {
    // "connecting" again and again would only flicker.
    if (text === "connecting" && this.attempts > 0) return;
    this.figures.Connection.textContent = text;
    this.stateTile.className = `state ${kind}`;
  }

  // Lines.

  take(text) {
    const line = JSON.parse(text);
    const now = performance.timeOrigin + performance.now();
    if (line.stream !== undefined) return this.takeNotice(line);
    const table = this.devices.get(line.device)?.take(line, now);
    if (!table) return;
    this.samples += 1;
    this.rate.add(now);
    const lag = now - table.rows.last;
    if (this.lag === null || lag < this.lag) this.lag = lag;
  }

  takeNotice(line) {
    if (line.stream === "missed") {
      this.missed += line.lines;
      for (const device of this.devices.values()) device.miss();
      return;
    }
    if (line.stream === "table" && !this.devices.has(line.device)) {
      if (this.devices.size === 0) this.place.replaceChildren();
      const device = new Device(line);
      this.devices.set(line.device, device);
      this.place.append(device.element);
    }
    const device = this.devices.get(line.device);
    if (line.stream === "table") device.describe(line);
    if (line.stream === "gap") device?.gap(line);
    if (line.stream === "end") device?.say(`ended: ${line.reason}; ${number(line.rows)} samples, ${number(line.lost)} lost`);
  }

  // Drawing.

  /** The time at the right edge, in milliseconds since the epoch. */
  edge() {
    if (this.stoppedAt !== null) return this.stoppedAt;
    return performance.timeOrigin + performance.now() - (this.lag ?? 0);
  }

  draw() {
    const to = this.edge();
    const from = to - this.seconds * 1000;
    for (const device of this.devices.values()) {
      device.forget(to - windows.at(-1) * 1000);
      for (const table of device.tables.values()) {
        for (const chart of table.charts) chart.draw(from, to, device.marks, this.palette);
      }
    }
  }

  write() {
    const now = performance.timeOrigin + performance.now();
    const unit = (text) => element("small", {}, " " + text);
    this.figures.Samples.replaceChildren(rate(this.rate.perSecond(now)), unit("per second"));
    this.figures.Missed.replaceChildren(number(this.missed), unit(this.missed === 1 ? "line" : "lines"));
    this.missedTile.classList.toggle("bad", this.missed > 0);
    for (const device of this.devices.values()) {
      for (const table of device.tables.values()) for (const chart of table.charts) chart.write(now, this.hasDelay);
    }
  }
}

const live = new Live();

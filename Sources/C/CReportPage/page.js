"use strict";

// Puts the page together from what `ringtap report` wrote into it.

/** An element with attributes and text. */
function element(name, attributes = {}, text) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function heading(title, ...content) {
  const made = element("section");
  made.append(element("h3", {}, title), ...content);
  return made;
}

/** What is there when asked for. */
function folded(title, note, ...content) {
  const made = element("details");
  const head = element("summary");
  head.append(element("h3", {}, title), " ", element("span", { class: "quiet" }, note));
  made.append(head, ...content);
  return made;
}

/** The few numbers that people look for first. */
function summaryRow(figures) {
  const list = element("dl", { class: "summary" });
  for (const figure of figures) {
    const item = element("div", { class: figure.isBad ? "bad" : "" });
    const value = element("dd", {}, figure.value);
    if (figure.unit) value.append(" ", element("small", {}, figure.unit));
    item.append(element("dt", {}, figure.name), value);
    if (figure.detail) item.append(element("dd", { class: "quiet" }, figure.detail));
    list.append(item);
  }
  return list;
}

function problemList(problems) {
  const names = { error: "Error", warning: "Warning", note: "Note" };
  const list = element("ul", { class: "problems" });
  for (const problem of problems) {
    const item = element("li", { class: problem.severity });
    item.append(element("strong", {}, names[problem.severity]), " ", problem.text);
    list.append(item);
  }
  return list;
}

function factCards(facts) {
  const cards = element("div", { class: "cards" });
  for (const group of facts) {
    const card = element("div", { class: "card" });
    const list = element("dl");
    for (const [name, value] of group.rows) list.append(element("dt", {}, name), element("dd", {}, value));
    card.append(element("h3", {}, group.title), list);
    cards.append(card);
  }
  return cards;
}

function details(facts) {
  return folded("Details", facts.map((group) => group.title.toLowerCase()).join(", "), factCards(facts));
}

/** A table; rows that do not come at first are there when asked for. */
function grid(titles, rows, makeRow) {
  const step = 200;
  const body = element("tbody");
  const table = element("table");
  const head = element("tr");
  for (const title of titles) head.append(element("th", { scope: "col" }, title));
  const top = element("thead");
  top.append(head);
  table.append(top, body);
  const more = element("button", { class: "more" });
  let shown = 0;
  const show = () => {
    for (const row of rows.slice(shown, shown + step)) body.append(makeRow(row));
    shown = Math.min(rows.length, shown + step);
    more.textContent = `${rows.length - shown} more rows`;
    more.hidden = shown === rows.length;
  };
  more.addEventListener("click", show);
  show();
  const scroll = element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": titles.join(", ") });
  scroll.append(table);
  const made = element("div");
  made.append(scroll, more);
  return made;
}

function cells(...texts) {
  const row = element("tr");
  for (const text of texts) row.append(text instanceof Node ? text : element("td", {}, text));
  return row;
}

/** A moment that shows itself in the plots when pressed. */
function momentCell(timeline, from, to) {
  const cell = element("td");
  const button = element("button", { class: "moment", title: "Show it" }, elapsed(from, 0.001));
  button.addEventListener("click", () => {
    const margin = Math.max((to - from) * 2, 1);
    timeline.show(from - margin, to + margin);
    timeline.bar.scrollIntoView({ block: "start" });
  });
  cell.append(button);
  return cell;
}

function markTable(timeline, marks) {
  const names = { gap: "Gap", loss: "Lost", pause: "Pause", event: "Event" };
  return grid(["At", "Length", "What", "Cause"], marks, (mark) =>
    cells(
      momentCell(timeline, mark.from, mark.to), mark.to > mark.from ? `${number(mark.to - mark.from)} s` : "",
      element("td", { class: mark.kind }, names[mark.kind]), mark.text));
}

function conversationTable(timeline, conversation) {
  const made = grid(["At", "From", "PDU", "Count", "What it says"], conversation.rows, (row) => {
    const [at, until, isSent, name, count, text] = row;
    const cell = element("td");
    cell.append(element("code", {}, text));
    return cells(
      momentCell(timeline, at, until), isSent ? "host" : "device", name, count > 1 ? `× ${count}` : "", cell);
  });
  if (conversation.omitted > 0) made.append(element("p", { class: "quiet" }, `${conversation.omitted} later rows are left out`));
  return made;
}

/** Durations by their logarithm: eight bars an octave. */
function histogram(spec) {
  const perOctave = 8;
  const bins = new Map();
  for (const [start, count] of spec.buckets) {
    const bin = Math.floor(Math.log2(Math.max(start, 1000)) * perOctave);
    bins.set(bin, (bins.get(bin) || 0) + count);
  }
  // Three octaves at least: a single bar is no wall.
  const [lowest, top] = [Math.min(...bins.keys()) - 1, Math.max(...bins.keys()) + 2];
  const margin = Math.max(0, Math.ceil((24 - (top - lowest)) / 2));
  const [first, last] = [lowest - margin, top + margin];
  const [width, height, foot] = [460, 150, 20];
  const highest = Math.max(...bins.values());
  const x = (bin) => ((bin - first) / (last - first)) * width;
  const svg = (name, attributes) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  };
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height + foot}`, role: "img", "aria-label": `${spec.title}: ${spec.summary}` });
  for (const [bin, count] of bins) {
    const size = Math.max(1, (count / highest) * (height - 14));
    const bar = svg("rect", { x: x(bin), y: height - size, width: Math.max(1, width / (last - first) - 1), height: size, class: "bar" });
    const title = svg("title", {});
    title.textContent = `${duration(2 ** (bin / perOctave))} … ${duration(2 ** ((bin + 1) / perOctave))}: ${count}`;
    bar.append(title);
    picture.append(bar);
  }
  picture.append(svg("line", { x1: 0, x2: width, y1: height, y2: height, class: "axis" }));
  for (let decade = 3; decade <= 14; decade++) {
    for (const factor of last - first < 40 ? [1, 2, 5] : [1]) {
      const at = Math.log2(factor * 10 ** decade) * perOctave;
      // Its name must have room, too.
      if (x(at) < 16 || x(at) > width - 20) continue;
      const label = svg("text", { x: x(at), y: height + 15 });
      label.textContent = duration(factor * 10 ** decade);
      picture.append(svg("line", { x1: x(at), x2: x(at), y1: height, y2: height + 4, class: "axis" }), label);
    }
  }
  const made = element("figure", { class: "histogram" });
  const caption = element("figcaption");
  caption.append(element("h4", {}, spec.title), element("p", { class: "quiet" }, `${spec.summary}; tallest bar: ${highest.toLocaleString("en")}`));
  made.append(caption, picture);
  return made;
}

function duration(nanoseconds) {
  if (nanoseconds >= 1e9) return `${number(+(nanoseconds / 1e9).toPrecision(3))} s`;
  if (nanoseconds >= 1e6) return `${number(+(nanoseconds / 1e6).toPrecision(3))} ms`;
  return `${number(+(nanoseconds / 1e3).toPrecision(3))} µs`;
}

/** Which kinds there are: "Gaps, losses, events". */
function marksTitle(marks) {
  const names = { gap: "gaps", loss: "losses", event: "events" };
  const words = Object.keys(names).filter((kind) => marks.some((mark) => mark.kind === kind)).map((kind) => names[kind]);
  const title = words.join(", ");
  return title[0].toUpperCase() + title.slice(1);
}

function plots(timeline) {
  const made = heading("Over time", timeline.bar);
  made.classList.add("plots");
  made.append(
    element("p", { class: "quiet help" },
      "Drag to zoom, Shift-drag to move, double-click for all. Keys: + − ← → 0. " + timeline.section.legend),
    ...timeline.charts.map((chart) => chart.element));
  return made;
}

function makeSection(section, number, hasSeveral) {
  const made = element("article");
  if (hasSeveral) made.append(element("h2", { id: `section-${number}` }, section.title));
  if (section.problems.length > 0) made.append(problemList(section.problems));
  made.append(summaryRow(section.summary));
  const tables = section.tables.map(
    (spec, index) => new Table(spec, document.getElementById(`data-${number}-${index}`).textContent));
  const timeline = new Timeline(section, tables);
  if (timeline.charts.length > 0) made.append(plots(timeline));
  const marks = section.marks.filter((mark) => mark.kind !== "rejected" && mark.kind !== "pause");
  if (marks.length > 0) made.append(heading(marksTitle(marks), markTable(timeline, marks)));
  const pauses = section.marks.filter((mark) => mark.kind === "pause");
  if (pauses.length > 0) made.append(folded("Pauses", pauses.length, markTable(timeline, pauses)));
  if (section.facts.length > 0) {
    made.append(details(section.facts));
  }
  if (section.histograms.length > 0) {
    const row = element("div", { class: "histograms" });
    row.append(...section.histograms.map(histogram));
    made.append(folded("Intervals and latency", section.histograms.length, row));
  }
  if (section.changes.length > 0) {
    made.append(folded("Connection parameters", section.changes.length, grid(["At", "In force from then on"], section.changes, ([at, text]) =>
      cells(momentCell(timeline, at, at), text))));
  }
  if (section.conversation.rows.length > 0) {
    made.append(folded("ATT conversation", section.conversation.rows.length.toLocaleString("en"), conversationTable(timeline, section.conversation)));
  }
  return { made, timeline };
}

function openPage() {
  const report = JSON.parse(document.getElementById("report").textContent);
  const page = document.getElementById("page");
  const header = element("header");
  header.append(element("h1", {}, report.title), element("p", { class: "quiet" }, report.subtitle));
  page.replaceChildren(header);
  if (report.problems.length > 0) page.append(problemList(report.problems));
  if (report.facts.length > 0) page.append(details(report.facts));
  const hasSeveral = report.sections.length > 1;
  if (hasSeveral) {
    const list = element("nav", { "aria-label": "Devices" });
    report.sections.forEach((section, number) => list.append(element("a", { href: `#section-${number}` }, section.title)));
    page.append(list);
  }
  const sections = report.sections.map((section, number) => makeSection(section, number, hasSeveral));
  page.append(...sections.map((section) => section.made), element("footer", { class: "quiet" }, report.footer));
  const timelines = sections.map((section) => section.timeline);
  for (const timeline of timelines) timeline.peers = timelines;
  for (const timeline of timelines) timeline.open();
  const repaint = () => timelines.forEach((timeline) => timeline.redraw((chart) => chart.colors()));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
  // Paper is white, and cannot be unfolded.
  let unfolded = [];
  addEventListener("beforeprint", () => {
    unfolded = [...document.querySelectorAll("details:not([open])")];
    for (const details of unfolded) details.open = true;
    document.documentElement.dataset.scheme = "light";
    repaint();
  });
  addEventListener("afterprint", () => {
    for (const details of unfolded) details.open = false;
    delete document.documentElement.dataset.scheme;
    repaint();
  });
  return { report, timelines };
}

const opened = openPage();

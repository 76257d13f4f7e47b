import BLEWire
import JSONText

/// Draws a `LogReport` as an SVG file: the updates of each connection over time, and a histogram of the
/// intervals between updates. The file is SVG 1.1, without scripts, external fonts or images.
package struct StatisticsPicture {
  /// Maximum number of connections drawn. The connections with the most updates are drawn, and a note has the
  /// number of the other connections.
  package static let maximumConnections = 24

  private static let width = 960.0
  private static let left = 70.0
  private static let plotWidth = 860.0
  private static let plotHeight = 90.0
  private static let panelHeight = 196.0
  private static let histogramHeight = 180.0

  private var body = ""
  private var y = 20.0

  package init(_ report: LogReport) {
    text(
      Self.left, y, "\(counted(report.records, "record")) in \(StatisticsText.seconds(report.duration)) s",
      size: 15)
    y += 16
    drawLegend()
    // The connections are selected by traffic, but drawn in the order of the log.
    let chosen = report.connections.enumerated().sorted {
      Self.updates($0.element) > Self.updates($1.element)
    }
    .prefix(Self.maximumConnections).sorted { $0.offset < $1.offset }
    for (index, connection) in chosen { draw(connection, number: index + 1) }
    let others = report.connections.count - chosen.count + report.omittedConnections
    if others > 0 {
      text(
        Self.left, y + 14,
        "\(counted(others, "connection")) more, with fewer updates, \(others == 1 ? "is" : "are") not drawn")
      y += 24
    }
    drawHistogram(report.intervals)
  }

  /// Contents of the SVG file.
  package var octets: [UInt8] { SVG.page(body, height: y + 10) }

  private static func updates(_ connection: ConnectionReport) -> Int {
    connection.timeline.counts.reduce(0) { $0 + Int($1) }
  }

  private mutating func drawLegend() {
    var x = Self.left
    for (color, name) in [
      (Color.rate, "updates per second"), (Color.gap, "pause of an attribute"),
      (Color.change, "parameters changed"),
      (Color.end, "disconnected"),
    ] {
      rectangle(x, y, 12, 10, color)
      text(x + 17, y + 9, name)
      x += 30 + Double(name.utf8.count) * 7
    }
    y += 24
  }

  // MARK: A connection over time

  private mutating func draw(_ connection: ConnectionReport, number: Int) {
    let top = y + 44
    let bottom = top + Self.plotHeight
    text(Self.left, y + 14, "Connection \(number): \(StatisticsText.title(connection))", size: 13)
    text(
      Self.left, y + 29,
      "\(counted(Self.updates(connection), "update")) in \(StatisticsText.seconds(connection.duration)) s; "
        + StatisticsText.text(connection.end), color: Color.quiet)
    rectangle(Self.left, top, Self.plotWidth, Self.plotHeight, Color.plot)
    let span = max(Double(connection.duration), 1)
    func x(_ offset: Int64) -> Double { Self.left + min(1, Double(offset) / span) * Self.plotWidth }
    drawRate(connection, top: top, span: span)
    drawGaps(connection, top: top) { x($0) }
    drawChanges(connection, top: top) { x($0) }
    if case .disconnected = connection.end {
      line(Self.left + Self.plotWidth, top, Self.left + Self.plotWidth, bottom, Color.end, width: 3)
    }
    drawTimeAxis(Double(connection.duration) / 1e9, y: bottom)
    caption("time since the connection came up", y: bottom)
    y += Self.panelHeight
  }

  /// Draws a separate lane for each attribute with gaps, because an attribute may pause while another
  /// attribute continues.
  private mutating func drawGaps(_ connection: ConnectionReport, top: Double, x: (Int64) -> Double) {
    let attributes = connection.attributes.filter { !$0.gaps.isEmpty }.prefix(6)
    let height = Self.plotHeight / Double(max(1, attributes.count))
    for (lane, attribute) in attributes.enumerated() {
      let y = top + Double(lane) * height
      for gap in attribute.gaps {
        let start = nanoseconds(from: connection.startTime, to: gap.time)
        let (end, overflow) = start.addingReportingOverflow(gap.duration)
        rectangle(
          x(start), y, max(1, x(overflow ? .max : end) - x(start)), height - 1, Color.gap, opacity: 0.45)
      }
      text(
        Self.left + Self.plotWidth - 4, y + 11, StatisticsText.hexadecimal(attribute.handle.rawValue),
        size: 10,
        anchor: "end", color: Color.quiet)
    }
  }

  /// Draws a step for each time bin.
  private mutating func drawRate(_ connection: ConnectionReport, top: Double, span: Double) {
    var timeline = connection.timeline
    // In a bin shorter than a second, a single notification would look like several notifications per second.
    while timeline.binWidth < 1_000_000_000, Double(timeline.binWidth) * 40 < span { timeline.halve() }
    guard let highest = timeline.counts.max() else { return }
    let perSecond = 1e9 / Double(timeline.binWidth)
    let maximum = Double(highest) * perSecond
    let bottom = top + Self.plotHeight
    func x(_ bin: Int) -> Double {
      Self.left + min(1, Double(bin) * Double(timeline.binWidth) / span) * Self.plotWidth
    }
    var path = "M\(SVG.number(Self.left)) \(SVG.number(bottom))"
    for bin in timeline.counts.indices {
      let height = Double(timeline.counts[bin]) * perSecond / maximum * Self.plotHeight
      path += "L\(SVG.number(x(bin))) \(SVG.number(bottom - height))"
      path += "L\(SVG.number(x(bin + 1))) \(SVG.number(bottom - height))"
    }
    path += "L\(SVG.number(x(timeline.counts.count))) \(SVG.number(bottom))Z"
    body += "<path d=\"\(path)\" fill=\"\(Color.rate)\" fill-opacity=\"0.75\"/>\n"
    text(Self.left - 6, top + 10, "\(StatisticsText.fixed(maximum, maximum < 10 ? 1 : 0))/s", anchor: "end")
    text(Self.left - 6, bottom, "0", anchor: "end")
  }

  private mutating func drawChanges(
    _ connection: ConnectionReport, top: Double, x: (Int64) -> Double
  ) {
    var nextFree = 0.0
    var row = 0.0
    for change in connection.changes {
      let at = x(nanoseconds(from: connection.startTime, to: change.time))
      line(at, top, at, top + Self.plotHeight, Color.change, width: 1.5)
      let label = Self.label(change.value)
      let labelWidth = Double(label.utf8.count) * 5.6 + 8
      row = at < nextFree ? row + 1 : 0
      // Labels that do not fit are omitted; the table lists all changes.
      guard row < 3 else { continue }
      let isRight = at + labelWidth > Self.left + Self.plotWidth
      text(isRight ? at - 4 : at + 4, top + 11 + row * 12, label, size: 10, anchor: isRight ? "end" : "start")
      nextFree = max(nextFree, at + labelWidth)
    }
  }

  private static func label(_ value: ParameterChange.Value) -> String {
    switch value {
    case .timing(let parameters): "interval \(StatisticsText.fixed(parameters.intervalMilliseconds, 2)) ms"
    default: StatisticsText.text(value)
    }
  }

  /// Draws the caption of an axis, below its numbers.
  private mutating func caption(_ name: String, y bottom: Double) {
    text(Self.left + Self.plotWidth / 2, bottom + 32, name, size: 11, anchor: "middle", color: Color.quiet)
  }

  private mutating func drawTimeAxis(_ seconds: Double, y bottom: Double) {
    let step = SVG.niceStep(seconds / 8)
    var tick = 0.0
    while tick <= seconds {
      let x = Self.left + (seconds > 0 ? tick / seconds : 0) * Self.plotWidth
      line(x, bottom, x, bottom + 4, Color.quiet)
      text(
        x, bottom + 17, "\(StatisticsText.fixed(tick, step < 0.1 ? 3 : step < 1 ? 1 : 0)) s", anchor: "middle"
      )
      guard step > 0 else { break }
      tick += step
    }
  }

  // MARK: The intervals

  private mutating func drawHistogram(_ intervals: LogLinearHistogram) {
    guard let summary = DurationSummary(intervals) else { return }
    text(
      Self.left, y + 14,
      "\(counted(summary.count, "interval")) between updates of an attribute: p50 "
        + "\(StatisticsText.milliseconds(summary.p50)) ms, p99 \(StatisticsText.milliseconds(summary.p99)) ms, "
        + "max \(StatisticsText.milliseconds(summary.maximum)) ms", size: 13)
    let top = y + 26
    let bottom = top + Self.histogramHeight
    rectangle(Self.left, top, Self.plotWidth, Self.histogramHeight, Color.plot)
    let columns = Self.columns(intervals)
    let first = Self.octave * Double(columns.start)
    let highest = Double(columns.counts.max() ?? 1)
    let columnWidth = Self.plotWidth / Double(columns.counts.count)
    for (index, count) in columns.counts.enumerated() where count > 0 {
      let height = max(1, Double(count) / highest * Self.histogramHeight)
      rectangle(
        Self.left + Double(index) * columnWidth, bottom - height, max(1, columnWidth - 1), height, Color.rate)
    }
    text(Self.left - 6, top + 10, StatisticsText.fixed(highest, 0), anchor: "end")
    text(Self.left - 6, top + 24, "intervals", size: 11, anchor: "end", color: Color.quiet)
    text(Self.left - 6, bottom, "0", anchor: "end")
    drawDurationAxis(first: first, last: first + Self.octave * Double(columns.counts.count), y: bottom)
    caption("interval, logarithmic", y: bottom)
    y = bottom + 40
  }

  /// Width of a column as a fraction of an octave.
  private static let octave = 0.25

  /// Returns counts by the logarithm of the interval. `start` is the position of the first column, in quarter
  /// octaves above one nanosecond.
  private static func columns(_ intervals: LogLinearHistogram) -> (start: Int, counts: [Int]) {
    func column(_ nanoseconds: Int64) -> Int { Int(logarithm(Double(max(1, nanoseconds))) / octave) }
    // Intervals below one microsecond count as one microsecond, because few timestamps are more precise.
    let buckets = intervals.buckets.map { (column(max(1_000, $0.start)), $0.count) }
    let start = (buckets.first?.0 ?? 0) - 1
    var counts = [Int](repeating: 0, count: (buckets.last?.0 ?? 0) - start + 2)
    for (column, count) in buckets { counts[column - start] += count }
    return (start, counts)
  }

  /// Returns the logarithm to base 2, from the number's exponent and significand. Interpolates linearly
  /// within an octave.
  private static func logarithm(_ number: Double) -> Double {
    Double(number.exponent) + number.significand - 1
  }

  private mutating func drawDurationAxis(first: Double, last: Double, y bottom: Double) {
    let names: [(Double, String)] = [
      (1e3, "1 µs"), (1e4, "10 µs"), (1e5, "100 µs"), (1e6, "1 ms"), (1e7, "10 ms"), (1e8, "100 ms"),
      (1e9, "1 s"), (1e10, "10 s"), (1e11, "100 s"), (1e12, "1,000 s"), (1e13, "10,000 s"),
    ]
    for (duration, name) in names {
      let position = (Self.logarithm(duration) - first) / (last - first)
      guard (0...1).contains(position) else { continue }
      let x = Self.left + position * Self.plotWidth
      line(x, bottom, x, bottom + 4, Color.quiet)
      text(x, bottom + 17, name, anchor: "middle")
    }
  }

  // MARK: Shapes

  private enum Color {
    static let rate = "#2b6cb0"
    static let gap = "#e57373"
    static let change = "#b7791f"
    static let end = "#c53030"
    static let quiet = "#555"
    static let plot = "#f2f4f7"
  }

  private mutating func rectangle(
    _ x: Double, _ y: Double, _ width: Double, _ height: Double, _ color: String, opacity: Double = 1
  ) {
    body += "<rect x=\"\(SVG.number(x))\" y=\"\(SVG.number(y))\" width=\"\(SVG.number(width))\""
    body += " height=\"\(SVG.number(height))\" fill=\"\(color)\""
    if opacity < 1 { body += " fill-opacity=\"\(SVG.number(opacity))\"" }
    body += "/>\n"
  }

  private mutating func line(
    _ x1: Double, _ y1: Double, _ x2: Double, _ y2: Double, _ color: String, width: Double = 1
  ) {
    body += "<line x1=\"\(SVG.number(x1))\" y1=\"\(SVG.number(y1))\" x2=\"\(SVG.number(x2))\""
    body += " y2=\"\(SVG.number(y2))\" stroke=\"\(color)\" stroke-width=\"\(SVG.number(width))\"/>\n"
  }

  private mutating func text(
    _ x: Double, _ y: Double, _ text: String, size: Int = 12, anchor: String = "start", color: String = "#222"
  ) { body += SVG.text(x, y, text, size: size, anchor: anchor, color: color) }
}

/// Building blocks of SVG 1.1 pictures without scripts, external fonts or images.
package enum SVG {
  /// Returns a white page, 960 pixels wide.
  package static func page(_ body: String, height: Double) -> [UInt8] {
    let height = number(height)
    let picture = """
      <?xml version="1.0" encoding="UTF-8"?>
      <svg xmlns="http://www.w3.org/2000/svg" width="960" height="\(height)" viewBox="0 0 960 \(height)" \
      font-family="sans-serif" font-size="12" fill="#222">
      <rect width="960" height="\(height)" fill="#fff"/>
      \(body)</svg>

      """
    return Array(picture.utf8)
  }

  package static func text(
    _ x: Double, _ y: Double, _ text: String, size: Int = 12, anchor: String = "start", color: String = "#222"
  ) -> String {
    "<text x=\"\(number(x))\" y=\"\(number(y))\" font-size=\"\(size)\" text-anchor=\"\(anchor)\" fill=\"\(color)\">"
      + "\(text.markup)</text>\n"
  }

  /// Formats a number, rounded to hundredths of a pixel.
  package static func number(_ value: Double) -> String { "\((value * 100).rounded() / 100)" }

  /// Returns the step of an axis: 1, 2 or 5 times a power of ten, at least `wanted`.
  package static func niceStep(_ wanted: Double) -> Double {
    guard wanted > 0, wanted.isFinite else { return 0 }
    var power = 1e-3
    while power * 10 < wanted { power *= 10 }
    for factor in [1.0, 2, 5] where power * factor >= wanted { return power * factor }
    return power * 10
  }
}

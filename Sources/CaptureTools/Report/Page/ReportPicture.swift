import PacketStatistics
import Recording

/// A report as one picture for a paper: each plot over the same time, with what is missing. SVG without scripts.
///
/// Each column of pixels has the smallest and the largest number that fall into it, so no peak is lost.
struct ReportPicture {
  fileprivate static let left = 76.0
  fileprivate static let width = 860.0
  fileprivate static let height = 110.0

  private var body = ""
  private var y = 30.0

  init(_ document: ReportDocument) {
    text(Self.left, y, document.title, size: 16)
    y += 18
    text(Self.left, y, document.subtitle, size: 11, color: Color.quiet)
    y += 12
    for section in document.sections where !section.charts.isEmpty { draw(section, of: document) }
  }

  /// The whole file.
  var octets: [UInt8] { SVG.page(body, height: y + 10) }

  private mutating func draw(_ section: ReportSection, of document: ReportDocument) {
    if document.sections.count > 1 {
      y += 26
      text(Self.left, y, section.title, size: 14)
    }
    for chart in section.charts { draw(chart, of: section) }
    drawTimeAxis(section.seconds)
  }

  private mutating func draw(_ chart: ReportSection.Chart, of section: ReportSection) {
    let shown = chart.series.filter(\.isShown)
    let table = section.tables[chart.table].table
    let columns = shown.map { table.columns[$0.column] }
    guard let low = columns.map(\.smallest).min(), let high = columns.map(\.largest).max(), low <= high else {
      return
    }
    y += 26
    text(Self.left, y, chart.title + (chart.unit.isEmpty ? "" : " (\(chart.unit))"), size: 12)
    drawNames(shown)
    let frame = Frame(
      top: y + 6, low: low, high: high > low ? high : low + 1, start: section.start,
      nanoseconds: Double(max(1, section.end &- section.start)))
    rectangle(Self.left, frame.top, Self.width, Self.height, Color.plot)
    for mark in section.marks where mark.kind != .rejected && mark.kind != .pause { draw(mark, in: frame) }
    for (index, column) in columns.enumerated() {
      let color = Color.series[index % Color.series.count]
      body += PicturePath.element(column, of: table, chart.style, in: frame, color)
    }
    text(Self.left - 6, frame.top + 10, Self.number(frame.high), size: 10, anchor: "end", color: Color.quiet)
    text(
      Self.left - 6, frame.top + Self.height, Self.number(low), size: 10, anchor: "end", color: Color.quiet)
    y = frame.top + Self.height
  }

  private mutating func drawNames(_ series: [ReportSection.Chart.Series]) {
    guard series.count > 1 else { return }
    var x = Self.left + Self.width
    for (index, series) in series.enumerated().reversed() {
      text(x, y, series.label, size: 11, anchor: "end", color: Color.series[index % Color.series.count])
      x -= Double(series.label.count) * 6.5 + 14
    }
  }

  private mutating func draw(_ mark: ReportSection.Mark, in frame: Frame) {
    let start = frame.x(mark.from)
    let width = max(1, frame.x(mark.to) - start)
    rectangle(
      start, frame.top, width, Self.height, mark.kind == .event ? Color.quiet : Color.gap, opacity: 0.3)
  }

  private mutating func drawTimeAxis(_ seconds: Double) {
    let step = SVG.niceStep(seconds / 8)
    var tick = 0.0
    while tick <= seconds, step > 0 {
      let x = Self.left + tick / seconds * Self.width
      text(
        x, y + 15, "\(NumberText.fixed(tick, step < 0.1 ? 3 : step < 1 ? 1 : 0)) s", size: 11,
        anchor: "middle",
        color: Color.quiet)
      tick += step
    }
    y += 24
  }

  // MARK: Shapes

  private mutating func rectangle(
    _ x: Double, _ y: Double, _ width: Double, _ height: Double, _ color: String, opacity: Double = 1
  ) {
    body += "<rect x=\"\(SVG.number(x))\" y=\"\(SVG.number(y))\" width=\"\(SVG.number(width))\""
    body += " height=\"\(SVG.number(height))\" fill=\"\(color)\" fill-opacity=\"\(opacity)\"/>\n"
  }

  private mutating func text(
    _ x: Double, _ y: Double, _ text: String, size: Int, anchor: String = "start", color: String = Color.ink
  ) { body += SVG.text(x, y, text, size: size, anchor: anchor, color: color) }

  private static func number(_ value: Double) -> String {
    NumberText.fixed(value, abs(value) >= 1000 || value == value.rounded() ? 0 : 2)
  }

  private enum Color {
    /// Okabe and Ito, which people of every colour vision tell apart.
    static let series = ["#0072b2", "#d55e00", "#009e73", "#a4508b", "#b07d00", "#3a9bd9"]
    static let gap = "#d55e00"
    static let ink = "#222"
    static let quiet = "#555"
    static let plot = "#f5f6f8"
  }

  /// Where a plot lies, and what its edges stand for.
  fileprivate struct Frame {
    var top: Double
    var low: Double
    var high: Double
    var start: Int64
    var nanoseconds: Double

    func x(_ time: Int64) -> Double {
      ReportPicture.left + max(0, min(1, Double(time &- start) / nanoseconds)) * ReportPicture.width
    }

    func y(_ value: Double) -> Double {
      top + 2 + (high - value) / (high - low) * (ReportPicture.height - 4)
    }
  }
}

/// A series as the path of a picture: for each column of pixels a stroke from its smallest number to its largest.
private struct PicturePath {
  private let style: ReportSection.Chart.Style
  private var path = ""
  /// The column that is gathered, and where its numbers lie.
  private var x: Double?
  private var (top, bottom) = (0.0, 0.0)
  private var isPenDown = false

  /// In pixels.
  private static let columnWidth = 0.5

  init(_ style: ReportSection.Chart.Style) { self.style = style }

  mutating func add(_ exact: Double, _ y: Double) {
    let column = (exact / Self.columnWidth).rounded() * Self.columnWidth
    if let x, x == column {
      (top, bottom) = (min(top, y), max(bottom, y))
      return
    }
    flush()
    (x, top, bottom) = (column, y, y)
  }

  /// Nothing leads from what came to what comes.
  mutating func lift() {
    flush()
    isPenDown = false
  }

  private mutating func flush() {
    guard let x else { return }
    let place = SVG.number(x)
    if style == .dots {
      for y in top < bottom ? [top, bottom] : [top] { path += "M\(place) \(SVG.number(y))h0.01" }
    } else {
      if isPenDown, style == .steps { path += "H\(place)" }
      // A dash, so that a number that stands alone is seen.
      path += isPenDown ? "L\(place) \(SVG.number(top))" : "M\(place) \(SVG.number(top))h0.01"
      if bottom > top { path += "V\(SVG.number(bottom))" }
    }
    isPenDown = true
    self.x = nil
  }

  mutating func element(_ color: String) -> String {
    flush()
    let width = style == .dots ? 3 : 0.8
    return "<path d=\"\(path)\" fill=\"none\" stroke=\"\(color)\" stroke-width=\"\(width)\" "
      + "stroke-linejoin=\"round\" stroke-linecap=\"round\"/>\n"
  }
}

extension PicturePath {
  /// The whole of a column.
  static func element(
    _ column: ReportTable.Column, of table: ReportTable, _ style: ReportSection.Chart.Style,
    in frame: ReportPicture.Frame, _ color: String
  ) -> String {
    guard let first = table.first else { return "" }
    var times = PackedColumn.Reader(table.times, from: first)
    var numbers = PackedColumn.Reader(column.numbers)
    var path = PicturePath(style)
    var lastTime = first
    let pause = table.longestStep
    for _ in 0..<table.count {
      let time = times.next() ?? lastTime
      if style == .line, time &- lastTime > pause { path.lift() }
      lastTime = time
      if let number = numbers.next() {
        path.add(frame.x(time), frame.y(Double(number) / Double(column.divisor)))
      } else {
        path.lift()
      }
    }
    return path.element(color)
  }
}

extension ReportDocument {
  /// As one picture.
  package var picture: [UInt8] { ReportPicture(self).octets }
}

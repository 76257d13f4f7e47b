import BLEDissector
import BLEWire
import JSONText
import Recording

/// Report as one SVG picture without scripts, for a publication. All plots have the same time axis, and
/// missing data is marked.
///
/// Each pixel column shows its first, smallest, largest and last value in order of arrival, so that no peak
/// is lost or added. Values beyond the axis (`ValueAxis`) are drawn to the edge with a triangle and mentioned
/// in the text.
struct ReportPicture {
  private var body = ""
  private var y = 30.0

  init(_ document: ReportDocument) {
    text(PictureFrame.left, y, document.title, size: 16)
    y += 18
    text(PictureFrame.left, y, document.subtitle, size: 11, color: Color.quiet)
    y += 12
    for section in document.sections where !section.charts.isEmpty { draw(section, of: document) }
  }

  /// The contents of the SVG file.
  var octets: [UInt8] { SVG.page(body, height: y + 10) }

  private mutating func draw(_ section: ReportSection, of document: ReportDocument) {
    if document.sections.count > 1 {
      y += 26
      text(PictureFrame.left, y, section.title, size: 14)
    }
    for chart in section.charts { draw(chart, of: section) }
    drawTimeAxis(section)
    let legend = section.legend(in: section.stretch)
    guard !legend.isEmpty else { return }
    text(PictureFrame.left, y + 8, legend, size: 11, color: Color.quiet)
    y += 14
  }

  private mutating func draw(_ chart: ReportSection.Chart, of section: ReportSection) {
    let shown = chart.series.filter(\.isShown)
    let table = section.tables[chart.table].table
    let rows = chart.rows(of: table, in: section.stretch)
    let numbers = shown.map { table.numbers($0.column, in: rows) }
    guard let axis = ValueAxis(numbers, chart.axis) else { return }
    y += 26
    drawTitle(chart, zip(axis.outliers, numbers).flatMap { rows, numbers in rows.map { numbers[$0] } })
    drawNames(shown)
    let frame = PictureFrame(top: y + 6, low: axis.low, high: axis.high, stretch: section.stretch)
    rectangle(PictureFrame.left, frame.top, PictureFrame.width, PictureFrame.height, Color.plot)
    for mark in section.marks where frame.shows(mark) { draw(mark, in: frame) }
    drawValueAxis(frame)
    let times = table.times(in: rows)
    for (index, numbers) in numbers.enumerated() {
      let color = Color.series[index % Color.series.count]
      let pause = chart.style == .line ? table.longestStep : .max
      body += PicturePath.element(numbers, at: times, chart.style, pause: pause, in: frame, color)
      body += frame.triangles(axis.outliers[index].map { (times[$0], numbers[$0]) }, Color.ink)
    }
    y = frame.top + PictureFrame.height
  }

  private mutating func drawTitle(_ chart: ReportSection.Chart, _ beyond: [Double]) {
    let title = (chart.title + (chart.unit.isEmpty ? "" : " (\(chart.unit))")).markup
    var note = ""
    if let least = beyond.min(), let most = beyond.max() {
      let values = [least, most].map { NumberText.significant($0, 6) }
      note =
        "<tspan dx=\"12\" font-size=\"10\" fill=\"\(Color.quiet)\">"
        + "\(counted(beyond.count, "sample")) beyond the axis: "
        + (values[0] == values[1] ? values[0] : values.joined(separator: " … ")) + "</tspan>"
    }
    body += "<text x=\"\(SVG.number(PictureFrame.left))\" y=\"\(SVG.number(y))\" font-size=\"12\" "
    body += "fill=\"\(Color.ink)\">\(title)\(note)</text>\n"
  }

  private mutating func drawNames(_ series: [ReportSection.Chart.Series]) {
    guard series.count > 1 else { return }
    var x = PictureFrame.left + PictureFrame.width
    for (index, series) in series.enumerated().reversed() {
      text(x, y, series.label, size: 11, anchor: "end", color: Color.series[index % Color.series.count])
      x -= Double(series.label.count) * 6.5 + 14
    }
  }

  private mutating func draw(_ mark: ReportSection.Mark, in frame: PictureFrame) {
    let start = frame.x(mark.from)
    let width = max(1, frame.x(mark.to) - start)
    let (color, opacity) =
      switch mark.kind {
      case .event: (Color.quiet, 0.5)
      case .loss: (Color.loss, 0.35)
      case .gap, .pause, .rejected: (Color.gap, 0.22)
      }
    rectangle(start, frame.top, width, PictureFrame.height, color, opacity: opacity)
  }

  // MARK: Axes

  private mutating func drawValueAxis(_ frame: PictureFrame) {
    let step = SVG.niceStep((frame.high - frame.low) / 3.5)
    guard step > 0 else { return }
    let decimals = (0...4).first { power in
      let scaled = step * [1, 10, 100, 1000, 10_000][power]
      return abs(scaled - scaled.rounded()) < 1e-6
    }
    var tick = (frame.low / step).rounded(.up)
    while tick * step <= frame.high {
      let place = frame.y(tick * step)
      rectangle(PictureFrame.left, place - 0.25, PictureFrame.width, 0.5, Color.grid)
      let label = NumberText.fixed(tick * step, decimals ?? 4)
      text(PictureFrame.left - 6, place + 3.5, label, size: 10, anchor: "end", color: Color.quiet)
      tick += 1
    }
  }

  /// Possible intervals between labels of the time axis, in seconds.
  private static let steps: [Double] = [
    0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800,
    3600, 7200, 14_400, 21_600, 43_200, 86_400,
  ]

  private mutating func drawTimeAxis(_ section: ReportSection) {
    let frame = PictureFrame(top: y, low: 0, high: 1, stretch: section.stretch)
    let (from, to) = (
      section.seconds(section.stretch.lowerBound), section.seconds(section.stretch.upperBound)
    )
    let wanted = (to - from) / 9
    let step = Self.steps.first { $0 >= wanted } ?? SVG.niceStep(wanted)
    var tick = (from / step - 1e-9).rounded(.up)
    while tick * step <= to, step > 0, wanted > 0 {
      let nanoseconds = Int64(tick * step * 1e9)
      let label = ReportText.elapsed(nanoseconds)
      let x = frame.x(section.timeAxis.lowerBound &+ nanoseconds)
      text(x, y + 15, label, size: 11, anchor: "middle", color: Color.quiet)
      tick += 1
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

  private enum Color {
    /// Colours by Okabe and Ito, which are distinguishable with any colour vision deficiency.
    static let series = ["#0072b2", "#d55e00", "#009e73", "#a4508b", "#b07d00", "#3a9bd9"]
    static let gap = "#d55e00"
    static let loss = "#cc003c"
    static let ink = "#222"
    static let quiet = "#555"
    static let plot = "#f5f6f8"
    static let grid = "#dfe3e8"
  }
}

extension ReportSection {
  /// Part of the time axis that is drawn.
  var stretch: ClosedRange<Int64> { view ?? timeAxis }

  /// Returns the seconds since the start of the time axis.
  func seconds(_ time: Int64) -> Double { Double(time &- timeAxis.lowerBound) / 1e9 }
}

extension ReportSection.Chart {
  /// Returns the rows in a period of time. For a plot of steps, the row before is included, because its value
  /// lasts until the next row.
  func rows(of table: ReportTable, in stretch: ClosedRange<Int64>) -> Range<Int> {
    let rows = table.rows(in: stretch)
    return style == .steps ? max(0, rows.lowerBound - 1)..<rows.upperBound : rows
  }
}

extension ReportDocument {
  /// The report as one SVG picture.
  package var picture: [UInt8] { ReportPicture(self).octets }
}

/// Position of a plot in a picture, and the values at its edges.
struct PictureFrame {
  static let left = 76.0
  static let width = 860.0
  static let height = 110.0

  let top: Double
  let low: Double
  let high: Double
  let stretch: ClosedRange<Int64>

  func x(_ time: Int64) -> Double {
    let length = Double(stretch.upperBound) - Double(stretch.lowerBound)
    let share = (Double(time) - Double(stretch.lowerBound)) / max(1, length)
    return Self.left + max(0, min(1, share)) * Self.width
  }

  /// Returns the vertical position of a value. Values beyond the axis are drawn at the edge.
  func y(_ value: Double) -> Double {
    let share = max(0, min(1, (high - value) / (high - low)))
    return top + Self.inset + share * (Self.height - 2 * Self.inset)
  }

  /// Margin above the largest and below the smallest value.
  private static let inset = 4.0

  func shows(_ mark: ReportSection.Mark) -> Bool { mark.isDrawn && mark.overlaps(stretch) }

  /// Draws a triangle at the edge for each value beyond it. Overlapping triangles are drawn once.
  func triangles(_ numbers: [(time: Int64, value: Double)], _ color: String) -> String {
    var path = ""
    var (lastHigh, lastLow) = (-Double.infinity, -Double.infinity)
    for (time, value) in numbers {
      let (x, isHigh) = (x(time), value > high)
      guard x - (isHigh ? lastHigh : lastLow) >= 5 else { continue }
      if isHigh { lastHigh = x } else { lastLow = x }
      let (edge, foot) = isHigh ? (top, top + 6) : (top + Self.height, top + Self.height - 6)
      path += "M\(SVG.number(x)) \(SVG.number(edge))L\(SVG.number(x - 4)) \(SVG.number(foot))h8z"
    }
    return path.isEmpty ? "" : "<path d=\"\(path)\" fill=\"\(color)\"/>\n"
  }
}

/// SVG path of a series. Each pixel column has a stroke through its first, smallest, largest and last value,
/// in order of arrival.
struct PicturePath {
  private let style: ReportSection.Chart.Style
  private var path = ""
  /// Position of the current pixel column.
  private var x: Double?
  /// Vertical positions of the first, largest, smallest and last value in the current pixel column.
  private var (first, top, bottom, last) = (0.0, 0.0, 0.0, 0.0)
  private var isTopLater = false
  private var isPenDown = false

  /// Width of a pixel column, in pixels.
  private static let columnWidth = 0.5

  private init(_ style: ReportSection.Chart.Style) { self.style = style }

  private mutating func add(_ exact: Double, _ y: Double) {
    let column = (exact / Self.columnWidth).rounded() * Self.columnWidth
    if let x, x == column {
      last = y
      if y < top { (top, isTopLater) = (y, true) }
      if y > bottom { (bottom, isTopLater) = (y, false) }
      return
    }
    flush()
    (x, first, top, bottom, last) = (column, y, y, y, y)
  }

  /// Interrupts the line. The next value starts a new line.
  private mutating func lift() {
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
      // A short dash makes a single value visible.
      path += isPenDown ? "L\(place) \(SVG.number(first))" : "M\(place) \(SVG.number(first))h0.01"
      var y = first
      for next in (isTopLater ? [bottom, top] : [top, bottom]) + [last] where next != y {
        path += "V\(SVG.number(next))"
        y = next
      }
    }
    isPenDown = true
    self.x = nil
  }

  /// Draws a series.
  ///
  /// - Parameters:
  ///   - numbers: values; NaN for a missing value.
  ///   - times: times of the values, in nanoseconds since the Unix epoch.
  ///   - style: style of the chart.
  ///   - pause: maximum interval spanned by the line, in nanoseconds.
  ///   - frame: position of the plot.
  ///   - color: colour of the line.
  /// - Returns: the SVG element.
  static func element(
    _ numbers: [Double], at times: [Int64], _ style: ReportSection.Chart.Style, pause: Int64,
    in frame: PictureFrame, _ color: String
  ) -> String {
    var path = PicturePath(style)
    var lastTime = times.first ?? 0
    for (time, number) in zip(times, numbers) {
      if time &- lastTime > pause { path.lift() }
      lastTime = time
      if number.isNaN { path.lift() } else { path.add(frame.x(time), frame.y(number)) }
    }
    // The last step lasts until the end.
    if style == .steps, path.x != nil { path.add(frame.x(frame.stretch.upperBound), path.last) }
    path.flush()
    let width = style == .dots ? 3 : 0.8
    return "<path d=\"\(path.path)\" fill=\"none\" stroke=\"\(color)\" stroke-width=\"\(width)\" "
      + "stroke-linejoin=\"round\" stroke-linecap=\"round\"/>\n"
  }
}

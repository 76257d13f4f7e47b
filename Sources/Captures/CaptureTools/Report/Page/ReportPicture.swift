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

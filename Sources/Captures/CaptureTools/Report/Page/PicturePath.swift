import BLEDissector

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

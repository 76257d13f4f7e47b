import Recording

/// Draws a waveform with characters. Each column covers the range of its samples and is connected to its
/// neighbours.
enum LiveWave {
  /// Draws the waveform.
  ///
  /// - Parameters:
  ///   - columns: two columns per cell, oldest first. Columns that do not fit are omitted.
  ///   - range: values at the lower and the upper edge.
  /// - Returns: `height` lines, from top to bottom.
  static func draw(
    _ columns: [LiveExtremes?], in range: ClosedRange<Double>, width: Int, height: Int,
    _ characters: LiveCharacters
  ) -> [String] {
    guard width > 0, height > 0 else { return [] }
    var shown = Array(columns.suffix(2 * width))
    shown = [LiveExtremes?](repeating: nil, count: 2 * width - shown.count) + shown
    switch characters {
    case .unicode: return braille(shown, range, height)
    case .ascii: return lines(shown, range, height)
    }
  }

  /// Returns the value range of a waveform. Outliers and the minimum span are handled as in a report. In a
  /// fast stream, the first second at the start and after a pause is ignored because the sensor is settling.
  ///
  /// - Parameters:
  ///   - unit: unit as in `RecordedColumn`.
  ///   - columnSeconds: duration of a column.
  static func range(
    _ columns: [LiveExtremes?], unit: String, columnSeconds: Double
  ) -> ClosedRange<Double>? {
    let settled = settled(columns, columnSeconds)
    let kept = settled.contains { $0 != nil } ? settled : columns
    let series = [\LiveExtremes.low, \.high].map { end in
      kept.map { $0.map { Double($0[keyPath: end]) } ?? .nan }
    }
    return ValueAxis(series, ValueAxis.Rule(unit: unit)).map { $0.low...$0.high }
  }

  /// Maximum number of empty columns between two columns that are connected.
  private static let joinedGap = 5
  private static let settlingSeconds = 1.0

  private static func settled(_ columns: [LiveExtremes?], _ columnSeconds: Double) -> [LiveExtremes?] {
    let length = Int(settlingSeconds / columnSeconds)
    guard length > joinedGap else { return columns }
    var (settled, silent, end) = (columns, 0, 0)
    for place in columns.indices {
      if columns[place] == nil {
        silent += 1
        continue
      }
      if silent > joinedGap { end = place + length }
      silent = 0
      if place < end { settled[place] = nil }
    }
    return settled
  }

  /// Returns the range of levels that the trace covers in each column. Level 0 is at the lower edge, and the
  /// top level is `count` − 1. The range includes the column's own samples, and the line from its last sample
  /// to the first sample of the next column.
  private static func levels(
    _ columns: [LiveExtremes?], _ range: ClosedRange<Double>, _ count: Int
  ) -> [ClosedRange<Int>?] {
    let scale = Double(count - 1) / (range.upperBound - range.lowerBound)
    func level(_ value: Float) -> Int {
      Int(min(max((Double(value) - range.lowerBound) * scale, 0), Double(count - 1)).rounded())
    }
    var levels = columns.map { $0.map { level($0.low)...level($0.high) } }
    var before: (place: Int, level: Int)?
    for (place, extremes) in columns.enumerated() {
      guard let extremes else { continue }
      let first = level(extremes.first)
      if let before, place - before.place <= joinedGap + 1 {
        join(before, (place, first), &levels)
      }
      before = (place, level(extremes.last))
    }
    return levels
  }

  /// Connects a column to a later column. At each step between neighbouring columns, each gets the nearer
  /// half of the line.
  private static func join(
    _ start: (place: Int, level: Int), _ end: (place: Int, level: Int), _ levels: inout [ClosedRange<Int>?]
  ) {
    let slope = Double(end.level - start.level) / Double(end.place - start.place)
    var (level, place) = (start.level, start.place)
    while place < end.place {
      let exact = Double(start.level) + slope * Double(place + 1 - start.place)
      let next = place + 1 == end.place ? end.level : Int(exact.rounded())
      let (rise, middle) = (next - level, (level + next) / 2)
      widen(&levels[place], level)
      widen(&levels[place + 1], next)
      if abs(rise) > 1 {
        widen(&levels[place], middle)
        widen(&levels[place + 1], middle + rise.signum())
      }
      (level, place) = (next, place + 1)
    }
  }

  private static func widen(_ levels: inout ClosedRange<Int>?, _ level: Int) {
    levels = levels.map { min($0.lowerBound, level)...max($0.upperBound, level) } ?? level...level
  }

  /// Bits for the dots of a Braille cell, by row (four) and column (two). Unicode, Braille Patterns, U+2800.
  private static let bits: [[UInt32]] = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]]

  private static func braille(
    _ columns: [LiveExtremes?], _ range: ClosedRange<Double>, _ height: Int
  ) -> [String] {
    let dots = 4 * height
    var cells = [[UInt32]](repeating: [UInt32](repeating: 0, count: columns.count / 2), count: height)
    for (place, touched) in levels(columns, range, dots).enumerated() {
      guard let touched else { continue }
      for level in touched {
        let row = dots - 1 - level
        cells[row / 4][place / 2] |= bits[row % 4][place % 2]
      }
    }
    return cells.map { row in
      String(
        String.UnicodeScalarView(row.map { $0 == 0 ? " " : Unicode.Scalar(0x2800 + $0) ?? " " }))
    }
  }

  /// Draws the trace with three levels per cell: top, middle, bottom. A bar represents several levels.
  private static func lines(
    _ columns: [LiveExtremes?], _ range: ClosedRange<Double>, _ height: Int
  ) -> [String] {
    var rows = [[Character]](
      repeating: [Character](repeating: " ", count: columns.count / 2), count: height)
    let halves = levels(columns, range, 3 * height)
    for place in 0..<columns.count / 2 {
      var both = halves[2 * place]
      if let second = halves[2 * place + 1] {
        widen(&both, second.lowerBound)
        widen(&both, second.upperBound)
      }
      guard let touched = both else { continue }
      for row in 0..<height {
        let foot = 3 * (height - 1 - row)
        let part = touched.clamped(to: foot...foot + 2)
        guard touched.overlaps(foot...foot + 2) else { continue }
        rows[row][place] = part.count > 1 ? "|" : [".", "-", "'"][part.lowerBound - foot]
      }
    }
    return rows.map { String($0) }
  }
}

/// Draws a wave with characters: each column reaches from the smallest to the largest of its samples.
enum LiveWave {
  /// - Parameters:
  ///   - columns: two for each cell, the newest at the end; more than there is room for are left out.
  ///   - range: the values at the lower and the upper edge.
  /// - Returns: `height` lines, the upper first.
  static func draw(
    _ columns: [LiveExtremes?], in range: ClosedRange<Float>, width: Int, height: Int,
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

  /// The range of a wave: that of its samples, but not so small that the last digit fills the height.
  static func range(_ columns: [LiveExtremes?]) -> ClosedRange<Float>? {
    var all: LiveExtremes?
    for case let extremes? in columns {
      if all == nil { all = extremes } else { all?.take(extremes) }
    }
    guard let all else { return nil }
    let middle = all.low / 2 + all.high / 2
    let least = max(abs(middle) * leastShare, .leastNormalMagnitude)
    return min(all.low, middle - least / 2)...max(all.high, middle + least / 2)
  }

  /// The height of a wave is at least this share of its value.
  private static let leastShare: Float = 0.005

  /// Levels from 0 at the lower edge to `count` − 1.
  private static func levels(
    _ extremes: LiveExtremes, _ range: ClosedRange<Float>, _ count: Int
  ) -> ClosedRange<Int> {
    let low = Double(range.lowerBound)
    let scale = Double(count - 1) / (Double(range.upperBound) - low)
    func level(_ value: Float) -> Int {
      min(max(Int(((Double(value) - low) * scale).rounded()), 0), count - 1)
    }
    return level(extremes.low)...level(extremes.high)
  }

  /// Two dots by four in a cell; the bits of a pattern by row and column. Unicode, Braille Patterns, U+2800.
  private static let bits: [[UInt32]] = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]]

  private static func braille(
    _ columns: [LiveExtremes?], _ range: ClosedRange<Float>, _ height: Int
  ) -> [String] {
    let dots = 4 * height
    var cells = [[UInt32]](repeating: [UInt32](repeating: 0, count: columns.count / 2), count: height)
    for (place, extremes) in columns.enumerated() {
      guard let extremes else { continue }
      for level in levels(extremes, range, dots) {
        let row = dots - 1 - level
        cells[row / 4][place / 2] |= bits[row % 4][place % 2]
      }
    }
    return cells.map { row in
      String(
        String.UnicodeScalarView(row.map { $0 == 0 ? " " : Unicode.Scalar(0x2800 + $0) ?? " " }))
    }
  }

  /// One column and three levels in a cell: at its top, in its middle, at its foot; a bar for more of them.
  private static func lines(
    _ columns: [LiveExtremes?], _ range: ClosedRange<Float>, _ height: Int
  ) -> [String] {
    var rows = [[Character]](
      repeating: [Character](repeating: " ", count: columns.count / 2), count: height)
    for place in 0..<columns.count / 2 {
      var both = columns[2 * place]
      if let second = columns[2 * place + 1] {
        if both == nil { both = second } else { both?.take(second) }
      }
      guard let both else { continue }
      let touched = levels(both, range, 3 * height)
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

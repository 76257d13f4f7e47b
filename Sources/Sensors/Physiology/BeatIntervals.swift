/// Computes the median interval between the beats of a window. Memory is allocated only in the initializer.
struct BeatIntervals: Sendable {
  /// The intervals in seconds, ascending.
  private var sorted: [Double]

  /// Creates a calculator for windows of limited size.
  ///
  /// - Parameter capacity: maximum number of beats.
  init(capacity: Int) { sorted = [Double](repeating: 0, count: capacity) }

  /// Returns the median interval, in seconds; `nil` for fewer than two beats.
  ///
  /// - Parameter rate: sample rate in samples per second.
  mutating func median(_ beats: Span<DetectedBeat>, rate: Double) -> Double? {
    let count = beats.count - 1
    guard count >= 1 else { return nil }
    for index in 0..<count {
      let interval = (beats[index + 1].position - beats[index].position) / rate
      var place = index
      while place > 0, sorted[place - 1] > interval {
        sorted[place] = sorted[place - 1]
        place -= 1
      }
      sorted[place] = interval
    }
    let middle = count / 2
    return count.isMultiple(of: 2) ? (sorted[middle - 1] + sorted[middle]) / 2 : sorted[middle]
  }
}

extension [Int64] {
  /// Returns the time at a position between two samples, in nanoseconds, by linear interpolation. The array
  /// is a ring buffer: sample n is at n modulo its length.
  ///
  /// - Parameter taken: number of samples so far.
  func time(at position: Double, taken: Int) -> Int64 {
    let before = Int(position.rounded(.down))
    let start = self[before % count]
    guard before + 1 < taken else { return start }
    let part = position - Double(before)
    return start &+ Int64(Double(self[(before + 1) % count] &- start) * part)
  }
}

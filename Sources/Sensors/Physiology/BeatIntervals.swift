/// The intervals between the beats of a window, for the two meters. No allocation after the start.
struct BeatIntervals: Sendable {
  /// Seconds, in order.
  private var sorted: [Double]

  /// - Parameter capacity: beats at most.
  init(capacity: Int) { sorted = [Double](repeating: 0, count: capacity) }

  /// The median interval: seconds; `nil` with fewer than two beats.
  ///
  /// - Parameter rate: samples a second.
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
  /// The time at a place between two samples: nanoseconds. The array is a ring: sample n is at n modulo its length.
  ///
  /// - Parameter taken: samples so far.
  func time(at position: Double, taken: Int) -> Int64 {
    let before = Int(position.rounded(.down))
    let start = self[before % count]
    guard before + 1 < taken else { return start }
    let part = position - Double(before)
    return start &+ Int64(Double(self[(before + 1) % count] &- start) * part)
  }
}

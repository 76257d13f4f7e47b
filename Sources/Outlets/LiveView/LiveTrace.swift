/// Minimum and maximum of some samples. The first and the last sample connect the trace to neighbouring
/// columns.
package struct LiveExtremes: Hashable, Sendable {
  package var low: Float
  package var high: Float
  package var first: Float
  package var last: Float

  /// Creates extremes.
  ///
  /// - Parameters:
  ///   - first, last: the first and last sample; `nil` for `low` and `high`.
  package init(_ low: Float, _ high: Float, first: Float? = nil, last: Float? = nil) {
    (self.low, self.high) = (low, high)
    (self.first, self.last) = (first ?? low, last ?? high)
  }

  mutating func take(later: LiveExtremes) {
    (low, high, last) = (min(low, later.low), max(high, later.high), later.last)
  }

  mutating func take(earlier: LiveExtremes) {
    (low, high, first) = (min(low, earlier.low), max(high, earlier.high), earlier.first)
  }
}

/// The latest samples of a stream for a waveform, in fixed memory. Each time slot keeps only its first,
/// minimum, maximum and last sample.
struct LiveTrace: Sendable {
  /// Length of a time slot, and of the shortest waveform column.
  static let slotNanoseconds: Int64 = 50_000_000
  /// Maximum number of slots with samples: enough for 600 columns of five slots.
  static let capacity = 4096

  private struct Slot {
    var number: Int64
    var extremes: LiveExtremes
  }

  private var slots: [Slot] = []
  /// Index of the newest slot.
  private var newest = 0

  init() { slots.reserveCapacity(Self.capacity) }

  /// Adds a sample.
  ///
  /// - Parameter time: nanoseconds on any clock.
  mutating func add(_ value: Double, at time: Int64) {
    let value = Float(value)
    guard value.isFinite else { return }
    let slot = Slot(number: Self.slot(time), extremes: LiveExtremes(value, value))
    if !slots.isEmpty, slots[newest].number == slot.number {
      slots[newest].extremes.take(later: slot.extremes)
    } else if slots.count < Self.capacity {
      newest = slots.count
      slots.append(slot)
    } else {
      newest = (newest + 1) % Self.capacity
      slots[newest] = slot
    }
  }

  /// Returns the latest columns, oldest first; `nil` for columns without samples.
  ///
  /// Columns start at multiples of their length, so that a scrolling waveform keeps its shape.
  ///
  /// - Parameters:
  ///   - slotsEach: length of a column in slots.
  ///   - end: a time within the last column, in nanoseconds.
  ///   - newer: further samples, later than all added samples.
  func columns(
    _ count: Int, slotsEach: Int64, until end: Int64, _ newer: [(time: Int64, value: Float)] = []
  ) -> [LiveExtremes?] {
    var columns = [LiveExtremes?](repeating: nil, count: count)
    let last = Self.column(Self.slot(end), slotsEach)
    var before = Int64.max
    for step in 0..<slots.count {
      let slot = slots[(newest - step + slots.count) % slots.count]
      let back = last - Self.column(slot.number, slotsEach)
      // Older slots are from before the clock was set back.
      guard slot.number < before, back < count else { break }
      before = slot.number
      guard back >= 0 else { continue }
      let place = count - 1 - Int(back)
      columns[place]?.take(earlier: slot.extremes)
      if columns[place] == nil { columns[place] = slot.extremes }
    }
    for sample in newer where sample.value.isFinite {
      let back = last - Self.column(Self.slot(sample.time), slotsEach)
      guard (0..<Int64(count)).contains(back) else { continue }
      let (place, extremes) = (count - 1 - Int(back), LiveExtremes(sample.value, sample.value))
      columns[place]?.take(later: extremes)
      if columns[place] == nil { columns[place] = extremes }
    }
    return columns
  }

  private static func slot(_ time: Int64) -> Int64 { column(time, slotNanoseconds) }

  /// Divides and rounds toward negative infinity.
  private static func column(_ number: Int64, _ length: Int64) -> Int64 {
    number / length - (number % length < 0 ? 1 : 0)
  }
}

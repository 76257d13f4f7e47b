/// The smallest and the largest of some samples.
package struct LiveExtremes: Hashable, Sendable {
  package var low: Float
  package var high: Float

  package init(_ low: Float, _ high: Float) {
    self.low = low
    self.high = high
  }

  mutating func take(_ other: LiveExtremes) {
    low = min(low, other.low)
    high = max(high, other.high)
  }
}

/// The latest samples of a stream in fixed memory, for a waveform: of those that share a slot of time only the smallest and
/// the largest.
struct LiveTrace: Sendable {
  /// The shortest column of a waveform.
  static let slotNanoseconds: Int64 = 50_000_000
  /// Slots with samples: enough for 600 columns of five.
  static let capacity = 4096

  private struct Slot {
    var number: Int64
    var extremes: LiveExtremes
  }

  private var slots: [Slot] = []
  /// The place of the newest.
  private var newest = 0

  init() { slots.reserveCapacity(Self.capacity) }

  /// - Parameter time: nanoseconds on any clock.
  mutating func add(_ value: Double, at time: Int64) {
    let value = Float(value)
    guard value.isFinite else { return }
    let slot = Slot(number: Self.slot(time), extremes: LiveExtremes(value, value))
    if !slots.isEmpty, slots[newest].number == slot.number {
      slots[newest].extremes.take(slot.extremes)
    } else if slots.count < Self.capacity {
      newest = slots.count
      slots.append(slot)
    } else {
      newest = (newest + 1) % Self.capacity
      slots[newest] = slot
    }
  }

  /// The last columns, the newest at the end; `nil` where nothing came.
  ///
  /// Columns begin at multiples of their length, so that a wave moves and does not change.
  ///
  /// - Parameters:
  ///   - slotsEach: the length of a column.
  ///   - end: a time in the last column: nanoseconds.
  func columns(_ count: Int, slotsEach: Int64, until end: Int64) -> [LiveExtremes?] {
    var columns = [LiveExtremes?](repeating: nil, count: count)
    let last = Self.column(Self.slot(end), slotsEach)
    var before = Int64.max
    for step in 0..<slots.count {
      let slot = slots[(newest - step + slots.count) % slots.count]
      let back = last - Self.column(slot.number, slotsEach)
      // What follows was before the clock was set back.
      guard slot.number < before, back < count else { break }
      before = slot.number
      guard back >= 0 else { continue }
      let place = count - 1 - Int(back)
      columns[place]?.take(slot.extremes)
      if columns[place] == nil { columns[place] = slot.extremes }
    }
    return columns
  }

  private static func slot(_ time: Int64) -> Int64 { column(time, slotNanoseconds) }

  /// Rounded down, also below zero.
  private static func column(_ number: Int64, _ length: Int64) -> Int64 {
    number / length - (number % length < 0 ? 1 : 0)
  }
}

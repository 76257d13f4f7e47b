import JSONText

/// Mean and range of a series of numbers. Missing values and magnitudes of 1e12 and more do not count.
package struct NumberRange: Hashable, Sendable {
  package private(set) var count = 0
  package private(set) var lowest: Double?
  package private(set) var highest: Double?
  package private(set) var last: Double?
  private var sum = 0.0

  package var mean: Double? { count > 0 ? sum / Double(count) : nil }

  mutating func add(_ number: Double?) {
    guard let number, abs(number) < 1e12 else { return }
    count += 1
    sum += number
    lowest = min(lowest ?? number, number)
    highest = max(highest ?? number, number)
    last = number
  }

  /// Caps the mean and all other values at `largest`.
  mutating func limit(to largest: Double) {
    sum = min(sum, largest * Double(count))
    (lowest, highest) = (lowest.map { min($0, largest) }, highest.map { min($0, largest) })
    last = last.map { min($0, largest) }
  }

  /// Writes the members `meanUnit`, `lowestUnit` and `highestUnit`; writes nothing if there are no numbers.
  func encode(_ unit: String, into line: inout JSONLine) {
    guard let mean, let lowest, let highest else { return }
    line.member("mean" + unit, mean)
    line.member("lowest" + unit, lowest)
    line.member("highest" + unit, highest)
  }
}

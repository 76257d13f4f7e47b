/// Number of events over time, in a bounded number of equal bins. When all bins are in use, pairs of bins are
/// merged.
package struct RateTimeline: Sendable {
  /// Maximum number of bins: twice as many as a picture can show.
  package static let maximumBins = 512

  /// Width of a bin in nanoseconds; initially 125 ms.
  package private(set) var binWidth: Int64 = 125_000_000
  package private(set) var counts: [UInt32] = []

  package init() {}

  /// Adds an event.
  ///
  /// - Parameter offset: nanoseconds since the start; a negative value counts as 0.
  package mutating func add(at offset: Int64) {
    var index = max(0, offset) / binWidth
    while index >= Self.maximumBins {
      halve()
      index = max(0, offset) / binWidth
    }
    let bin = Int(index)
    if bin >= counts.count { counts.append(contentsOf: repeatElement(0, count: bin + 1 - counts.count)) }
    counts[bin] &+= 1
  }

  /// Merges pairs of bins.
  package mutating func halve() {
    binWidth *= 2
    for index in 0..<(counts.count + 1) / 2 {
      let second = 2 * index + 1 < counts.count ? counts[2 * index + 1] : 0
      counts[index] = counts[2 * index] &+ second
    }
    counts.removeLast(counts.count / 2)
  }
}

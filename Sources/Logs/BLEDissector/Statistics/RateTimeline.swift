/// Number of events over time, in a bounded number of equal bins. When the last bin is full, pairs of bins
/// are merged.
package struct RateTimeline: Sendable {
  /// Twice as many as fit into a picture.
  package static let maximumBins = 512

  /// Width of a bin in nanoseconds; initially 125 ms.
  package private(set) var binWidth: Int64 = 125_000_000
  package private(set) var counts: [UInt32] = []

  package init() {}

  /// - Parameter offset: nanoseconds since the start; negative values count as 0.
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

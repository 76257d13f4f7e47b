import Foundation

/// Pseudo-random numbers in 0 ..< 1 from a linear congruential generator (Knuth's MMIX constants).
package struct Noise {
  private var state: UInt64 = 0x5EED

  package init(seed: UInt64 = 0x5EED) { state = seed }

  package mutating func next() -> Double {
    state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
    return Double(state >> 11) / Double(1 << 53)
  }
}

/// Prints figures for the documents if requested with `RINGTAP_FIGURES=1`.
package enum Figures {
  package static var areWanted: Bool { ProcessInfo.processInfo.environment["RINGTAP_FIGURES"] != nil }

  package static func note(_ text: String) {
    if areWanted { print(text) }
  }
}

extension [Double] {
  package var mean: Double { reduce(0, +) / Double(count) }
  package var rootMeanSquare: Double { (reduce(0) { $0 + $1 * $1 } / Double(count)).squareRoot() }
  package var median: Double { sorted()[count / 2] }
}

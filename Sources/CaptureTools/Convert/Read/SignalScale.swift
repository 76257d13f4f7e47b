import BLELinux

/// What integers of some bits stand for: how a signal is kept in a file of EDF+, BDF+ or WFDB.
struct SignalScale: Hashable {
  /// The unit's share of one step.
  var step: Double
  /// What is taken from the number of steps before it is kept.
  var offset = 0
  /// Integers that may be kept.
  var digital: ClosedRange<Int>
  /// Whether all values of the signal are kept as they were recorded.
  var isExact: Bool

  var physical: ClosedRange<Double> {
    Double(digital.lowerBound + offset) * step...Double(digital.upperBound + offset) * step
  }

  /// What is kept of a value, the nearest there is.
  func digital(_ value: Double) -> Int {
    let steps = (value / step).rounded() - Double(offset)
    return Int(max(Double(digital.lowerBound), min(steps, Double(digital.upperBound))))
  }
}

/// How fine a signal is recorded.
enum SignalGrain: Hashable {
  /// Whole numbers of `range`.
  case integers(ClosedRange<Int>)
  /// Multiples of a 512th within ±4, as the acceleration of a ring.
  case acceleration
  /// With so many digits behind the point.
  case decimals(Int)
}

extension SignalGrain {
  /// A scale for integers of so many bits that takes values of a signal up to `largest` in magnitude.
  ///
  /// Ends of the physical range have 8 characters in an EDF head: these are short, so what a reader computes of them is
  /// exact.
  func scale(bits: Int, largest: Double) -> SignalScale {
    let half = 1 << (bits - 1)
    switch self {
    case .acceleration: return SignalScale(step: 1.0 / 512, digital: -2048...2048, isExact: true)
    case .integers(let range):
      if range.lowerBound >= -half, range.upperBound < half {
        return SignalScale(step: 1, digital: range, isExact: true)
      }
      if range.count <= 2 * half {
        let offset = range.lowerBound + half
        return SignalScale(step: 1, offset: offset, digital: -half...range.count - half - 1, isExact: true)
      }
      return Self.decimal(0, bits: bits, largest: largest)
    case .decimals(let decimals): return Self.decimal(decimals, bits: bits, largest: largest)
    }
  }

  /// The finest power of ten at which the largest value still finds room.
  private static func decimal(_ decimals: Int, bits: Int, largest: Double) -> SignalScale {
    let limit = bits == 16 ? 32_000 : bits == 24 ? 8_000_000 : 2_000_000_000
    var coarser = 0
    while Double(limit) * power(coarser - decimals) < largest, coarser < 12 { coarser += 1 }
    return SignalScale(
      step: power(coarser - decimals), digital: -limit...limit, isExact: coarser == 0)
  }

  private static func power(_ exponent: Int) -> Double {
    var number = 1.0
    for _ in 0..<abs(exponent) { number *= 10 }
    return exponent < 0 ? 1 / number : number
  }
}

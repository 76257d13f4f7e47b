import BLELinux

/// Maps a signal's values to integers of a given number of bits, for a file of EDF+, BDF+ or WFDB.
struct SignalScale: Hashable {
  /// Size of one step, in the signal's unit.
  var step: Double
  /// Offset that is subtracted from the number of steps before it is stored.
  var offset = 0
  /// Range of stored integers. The lowest marks a missing sample.
  var digital: ClosedRange<Int>
  /// Whether all values of the signal are stored exactly as they were recorded.
  var isExact: Bool

  var physical: ClosedRange<Double> {
    Double(digital.lowerBound + offset) * step...Double(digital.upperBound + offset) * step
  }

  /// The integer for a missing sample.
  var missing: Int { digital.lowerBound }

  /// Returns the integer nearest to a value.
  func digital(_ value: Double) -> Int {
    let steps = (value / step).rounded() - Double(offset)
    return Int(max(Double(digital.lowerBound + 1), min(steps, Double(digital.upperBound))))
  }
}

/// The precision of a recorded signal.
enum SignalGrain: Hashable {
  /// Integers.
  case integers
  /// Multiples of 1/512, as in a ring's acceleration.
  case acceleration
  /// Decimal numbers with this many digits after the point.
  case decimals(Int)
}

extension SignalGrain {
  /// Returns a scale for integers of `bits` bits that covers the values from `smallest` to `largest` and
  /// reserves its lowest integer for missing samples.
  ///
  /// An EDF header has 8 characters for each end of the physical range. The ends are chosen to fit, so that
  /// readers compute exact values from them. If the bits are too few for the recorded steps, the steps are
  /// coarser by a power of ten.
  func scale(bits: Int, smallest: Double, largest: Double) -> SignalScale {
    let half = 1 << (bits - 1)
    let (unit, grid) = unit
    var coarser = 0
    while true {
      let step = unit * power(coarser)
      let low = bounded(down((smallest / step).rounded(), to: grid) - grid)
      let high = max(bounded(up((largest / step).rounded(), to: grid)), low + 1)
      if high - low < Double(2 * half) || coarser == 12 {
        let (first, last) = (Int(low), Int(min(high, low + Double(2 * half - 1))))
        let fits = first >= -half && last < half
        let offset = fits ? 0 : first + half
        return SignalScale(
          step: step, offset: offset, digital: first - offset...last - offset, isExact: coarser == 0)
      }
      coarser += 1
    }
  }

  /// The recorded step, and the multiple of it whose text is short.
  private var unit: (step: Double, grid: Double) {
    switch self {
    case .integers: (1, 1)
    // The multiple is 0.125 g.
    case .acceleration: (1.0 / 512, 64)
    case .decimals(let decimals): (power(-decimals), power(decimals))
    }
  }

  /// Limits out-of-range numbers from a damaged table, so that they remain exact integers.
  private func bounded(_ number: Double) -> Double { min(max(number, -0x1p52), 0x1p52) }

  private func down(_ number: Double, to grid: Double) -> Double { (number / grid).rounded(.down) * grid }
  private func up(_ number: Double, to grid: Double) -> Double { (number / grid).rounded(.up) * grid }

  private func power(_ exponent: Int) -> Double {
    var number = 1.0
    for _ in 0..<abs(exponent) { number *= 10 }
    return exponent < 0 ? 1 / number : number
  }
}

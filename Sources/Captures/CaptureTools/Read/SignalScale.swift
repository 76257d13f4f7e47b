import BLELinux

/// What integers of some bits stand for: how a signal is kept in a file of EDF+, BDF+ or WFDB.
struct SignalScale: Hashable {
  /// The unit's share of one step.
  var step: Double
  /// What is taken from the number of steps before it is kept.
  var offset = 0
  /// Integers that may be kept, the lowest of them for what did not come.
  var digital: ClosedRange<Int>
  /// Whether all values of the signal are kept as they were recorded.
  var isExact: Bool

  var physical: ClosedRange<Double> {
    Double(digital.lowerBound + offset) * step...Double(digital.upperBound + offset) * step
  }

  /// Stands for what did not come.
  var missing: Int { digital.lowerBound }

  /// What is kept of a value, the nearest there is.
  func digital(_ value: Double) -> Int {
    let steps = (value / step).rounded() - Double(offset)
    return Int(max(Double(digital.lowerBound + 1), min(steps, Double(digital.upperBound))))
  }
}

/// How fine a signal is recorded.
enum SignalGrain: Hashable {
  /// Whole numbers.
  case integers
  /// Multiples of a 512th, as the acceleration of a ring.
  case acceleration
  /// With so many digits behind the point.
  case decimals(Int)
}

extension SignalGrain {
  /// A scale for integers of so many bits that takes the values from `smallest` to `largest`, and has its lowest integer
  /// below them to spare: for what did not come.
  ///
  /// Ends of the physical range have 8 characters in an EDF head: these are short, so what a reader computes of them is
  /// exact. Where the bits do not suffice for the steps as they were recorded, the steps are coarser by a power of ten.
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

  /// A step as it was recorded, and the multiple of it whose text is short.
  private var unit: (step: Double, grid: Double) {
    switch self {
    case .integers: (1, 1)
    // 0.125 g.
    case .acceleration: (1.0 / 512, 64)
    case .decimals(let decimals): (power(-decimals), power(decimals))
    }
  }

  /// Numbers that no sensor has, from a damaged table, stay integers.
  private func bounded(_ number: Double) -> Double { min(max(number, -0x1p52), 0x1p52) }

  private func down(_ number: Double, to grid: Double) -> Double { (number / grid).rounded(.down) * grid }
  private func up(_ number: Double, to grid: Double) -> Double { (number / grid).rounded(.up) * grid }

  private func power(_ exponent: Int) -> Double {
    var number = 1.0
    for _ in 0..<abs(exponent) { number *= 10 }
    return exponent < 0 ? 1 / number : number
  }
}

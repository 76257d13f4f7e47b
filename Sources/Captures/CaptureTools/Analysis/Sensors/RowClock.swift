import BLELinux
import BLEWire
import Recording

/// Places the rows of a raw stream on the sensor's clock: index, time, and whether they continue the previous
/// ones.
struct RowClock {
  struct Place {
    /// Number of the sample since the first one; lost samples are counted too.
    let index: Int
    let time: ReceiveTime
    /// Whether the time since the previous sample is unknown.
    let isRestart: Bool
  }

  /// Sample rate, in samples per second.
  let rate: Double
  private let table: SignalTable
  private var walk: SignalWalk

  /// Number of rows used to measure the rate.
  private static let measuredRows = 4_096

  /// Measures the rate.
  ///
  /// - Parameter reader: reader of the table, at its start. The initializer consumes some of its rows.
  /// - Returns: `nil` if the rows have no steady rate, or are too few.
  init?(_ reader: any TableReader) {
    guard let table = SignalTable(reader.table) else { return nil }
    var steps: [Double] = []
    var last: SignalTable.Moment?
    while steps.count < Self.measuredRows, reader.next() {
      let moment = table.moment(reader.words)
      if let last, let step = table.interval(from: last, to: moment, period: nil) {
        steps.append(step.nanoseconds / step.periods)
      }
      last = moment
    }
    steps.sort()
    guard !steps.isEmpty, SignalTable.rates.contains(1e9 / steps[steps.count / 2]) else { return nil }
    rate = 1e9 / steps[steps.count / 2]
    self.table = table
    walk = SignalWalk(table, period: steps[steps.count / 2])
  }

  /// Returns the place of the next row.
  mutating func place(_ words: [UInt64]) -> Place {
    let moment = table.moment(words)
    let index = walk.next(words)
    return Place(index: index, time: ReceiveTime(nanoseconds: moment.time), isRestart: walk.isRestart)
  }
}

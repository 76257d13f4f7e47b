import BLELinux
import Recording

/// The places of a table's grid one after the other, with a value for each of its signals.
struct SignalPlaces {
  /// Of the last place: NaN for what did not come.
  private(set) var values: [Double]
  private let table: SignalTable
  private let reader: any TableReader
  private let nothing: [Double]
  private var walk: SignalWalk
  private var place = 0
  /// Where the row that was read last belongs; `nil` if it was given.
  private var upcoming: Int?

  init(_ capture: RecordedCapture, _ table: SignalTable, period: Double) throws(SystemError) {
    self.table = table
    reader = try capture.reader(table.table)
    walk = SignalWalk(table, period: period)
    nothing = [Double](repeating: .nan, count: table.signals.count)
    values = nothing
  }

  /// Goes on to the next place.
  ///
  /// - Returns: `false` behind the last one.
  mutating func next() -> Bool {
    if upcoming == nil {
      guard reader.next() else { return false }
      upcoming = walk.next(reader.words)
    }
    guard let position = upcoming, place >= position else {
      values = nothing
      place += 1
      return true
    }
    for (index, signal) in table.signals.enumerated() {
      values[index] = table.table.columns[signal.place].number(reader.words[signal.place]) ?? .nan
    }
    place += 1
    upcoming = nil
    return true
  }
}

import BLELinux
import Recording

/// Iterates over the positions of a table's grid, with a value for each of its signals.
struct SignalPlaces {
  /// Values at the current position; NaN for missing ones.
  private(set) var values: [Double]
  private let table: SignalTable
  private let reader: any TableReader
  private let nothing: [Double]
  private var walk: SignalWalk
  private var place = 0
  /// Position of the row read ahead; `nil` if that row was returned.
  private var upcoming: Int?

  init(_ capture: RecordedCapture, _ table: SignalTable, period: Double) throws(SystemError) {
    self.table = table
    reader = try capture.reader(table.table)
    walk = SignalWalk(table, period: period)
    nothing = [Double](repeating: .nan, count: table.signals.count)
    values = nothing
  }

  /// Advances to the next position.
  ///
  /// - Returns: `false` after the last one.
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

import BLECore
package import ColmiRing
package import SensorSessions

/// The tables of a ring: one for each subtype as it came, and one of ticks.
package struct RingTables: SampleTables {
  /// The place of the table `samples`.
  private static let ticksTable = RingStream.allCases.count

  private var stream = TickStream()
  private var rows = TickRows()

  package init() {}

  package var tables: [RecordedTable] { RingStream.allCases.map(\.table) + [TickRows.table] }
  package var ticks: TickReport? { stream.report }
  package var dropouts: [Int?] { RingStream.allCases.map { $0.hasDropouts ? droppedOut[$0.rawValue] : nil } }
  /// By `RingStream.rawValue`.
  private var droppedOut: InlineArray<3, Int> = .init(repeating: 0)

  package mutating func append(_ sample: RingRawReading, to files: inout RecordingFiles) {
    guard let table = sample.stream?.rawValue else { return }
    files.append(sample, to: table)
    if sample.sample.isDropout { droppedOut[table] += 1 }
    stream.take(sample.sample, at: sample.time)
    takeTicks(&files)
  }

  package mutating func finish(_ files: inout RecordingFiles) {
    stream.finish()
    takeTicks(&files)
  }

  package private(set) var account = TableAccount()
  private var lastTick: ReceiveTime?

  private mutating func note(_ placed: PlacedTick) {
    // Here, before any is missing: the first stretch of a long stream allocates nothing.
    if lastTick == nil { account.stretches.reserveCapacity(TableAccount.stretchLimit) }
    account.isNumbered = true
    account.missing += placed.missingBefore
    if placed.missingBefore > 0, let lastTick, account.stretches.count < TableAccount.stretchLimit {
      account.stretches.append(
        TableAccount.Stretch(after: lastTick, before: placed.fittedTime, count: placed.missingBefore))
    }
    lastTick = placed.fittedTime
  }

  private mutating func takeTicks(_ files: inout RecordingFiles) {
    while let placed = stream.next() {
      note(placed)
      files.append(rows.row(placed), to: Self.ticksTable)
      files.live?.take(placed)
    }
  }
}

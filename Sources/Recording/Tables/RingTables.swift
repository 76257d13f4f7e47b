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
    seen.notifications += 1
    stream.take(sample.sample, at: sample.time)
    takeTicks(&files)
  }

  package mutating func finish(_ files: inout RecordingFiles) {
    stream.finish()
    takeTicks(&files)
  }

  /// Fastest ticks that a ring has, a second. What comes faster is played from a log or a test as fast as it is taken: its
  /// timestamps say nothing of the ring's clock.
  private static let fastestTicks = 1_000.0

  package var account: TableAccount {
    (stream.report.rate ?? 0) > Self.fastestTicks ? TableAccount() : seen
  }
  private var seen = TableAccount()
  private var lastTick: ReceiveTime?

  private mutating func note(_ placed: PlacedTick) {
    // Here, before any is missing: the first stretch of a long stream allocates nothing.
    if lastTick == nil { seen.stretches.reserveCapacity(TableAccount.stretchLimit) }
    seen.isNumbered = true
    seen.samples += 1
    seen.missing += placed.missingBefore
    if placed.missingBefore > 0, let lastTick, seen.stretches.count < TableAccount.stretchLimit {
      seen.stretches.append(
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

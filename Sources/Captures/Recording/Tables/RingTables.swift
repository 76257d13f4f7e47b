package import BLEWire
package import ColmiRing
package import SensorSessions

/// The tables of a ring: one for each subtype as it came, and one of ticks.
package struct RingTables: SampleTables {
  /// The place of the table `samples`.
  private static let ticksTable = RingStream.allCases.count

  private var stream = TickStream()
  private var rows = TickRows()
  private var clock = ClockSetting()

  package init() {}

  package var tables: [RecordedTable] { RingStream.allCases.map(\.table) + [TickRows.table] }
  package var ticks: TickReport? { stream.report }
  package var dropouts: [Int?] { RingStream.allCases.map { $0.hasDropouts ? droppedOut[$0.rawValue] : nil } }
  /// By `RingStream.rawValue`.
  private var droppedOut: InlineArray<3, Int> = .init(repeating: 0)

  package static func time(of sample: RingRawReading) -> ReceiveTime { sample.time }
  package mutating func begin(_ clock: ClockSetting) { self.clock = clock }

  package mutating func append(_ sample: RingRawReading, to files: inout RecordingFiles) {
    guard let table = sample.stream?.rawValue else { return }
    files.append(sample, to: table)
    if sample.sample.isDropout { droppedOut[table] += 1 }
    stream.take(sample.sample, at: sample.time, link: sample.link, clock: clock)
    takeTicks(&files)
  }

  package mutating func finish(_ files: inout RecordingFiles) {
    stream.finish()
    takeTicks(&files)
  }

  package var account: TableAccount { losses.account(stream.report) }
  private var losses = RingLosses()

  private mutating func takeTicks(_ files: inout RecordingFiles) {
    while let placed = stream.next() {
      losses.take(placed)
      files.append(rows.row(placed), to: Self.ticksTable)
      files.live?.take(placed)
    }
  }
}

/// Samples of a ring that are missing by its clock: those of ticks that never came, and those that a tick lacks.
package struct RingLosses: Sendable {
  /// Fastest ticks that a ring has, a second. What comes faster is played from a log or a test as fast as it is taken: its
  /// timestamps say nothing of the ring's clock.
  private static let fastestTicks = 1_000.0

  private struct Last: Sendable {
    var index: Int
    var time: ReceiveTime
    /// Ticks that had been missing by then.
    var missingTicks: Int
  }

  private var account = TableAccount()
  /// By `RingTick.Part.rawValue`: the last tick that had it.
  private var last: [Last?] = RingTick.Part.allCases.map { _ in nil }
  private var missing: [Int] = RingTick.Part.allCases.map { _ in 0 }
  /// Likewise, those of ticks of which nothing came.
  private var whole: [Int] = RingTick.Part.allCases.map { _ in 0 }
  private var missingTicks = 0

  package init() {}

  package mutating func take(_ placed: PlacedTick) {
    // Here, before any is missing: the first stretch of a long stream allocates nothing.
    if !account.isNumbered { account.stretches.reserveCapacity(TableAccount.stretchLimit) }
    account.isNumbered = true
    missingTicks += placed.missingBefore
    take(.spO2, placed)
    take(.ppg, placed)
    take(.accelerometer, placed)
  }

  private mutating func take(_ part: RingTick.Part, _ placed: PlacedTick) {
    if placed.isRestart { last[part.rawValue] = nil }
    guard placed.tick.time(of: part) != nil else { return }
    account.samples += 1
    account.notifications += 1
    if let last = last[part.rawValue], placed.index - last.index > 1 {
      let count = placed.index - last.index - 1
      let ofTicks = min(count, missingTicks - last.missingTicks)
      missing[part.rawValue] += count
      whole[part.rawValue] += ofTicks
      if account.stretches.count < TableAccount.stretchLimit {
        account.stretches.append(
          TableAccount.Stretch(after: last.time, before: placed.fittedTime, count: count, whole: ofTicks))
      }
    }
    last[part.rawValue] = Last(index: placed.index, time: placed.fittedTime, missingTicks: missingTicks)
  }

  /// - Parameter report: tells which parts come with each tick: others are not missing if a tick lacks them. If timestamps are off
  ///   by more than the ticks are apart, it proves no whole tick missing; if by much more, neither that none is.
  package func account(_ report: TickReport) -> TableAccount {
    guard let rate = report.rate, rate <= Self.fastestTicks else { return TableAccount() }
    var account = account
    let periodsOff = report.clock.residual * rate / 1e9
    let isProof = periodsOff < Self.proof
    for part in RingTick.Part.allCases where report.parts[part.rawValue].everyTicks == 1 {
      account.missing += missing[part.rawValue] - (isProof ? 0 : whole[part.rawValue])
    }
    if !isProof {
      account.stretches = account.stretches.map {
        TableAccount.Stretch(after: $0.after, before: $0.before, count: $0.count - $0.whole)
      }
      account.isNumbered = account.isNumbered && missingTicks == 0 && periodsOff < Self.doubt
    }
    // Where it is unknown how many ticks the ring made, there may be more.
    if report.clock.missingAtMost == nil { account.isNumbered = false }
    return account
  }

  /// Periods by which timestamps may be off for a missing tick to be proven, and for none to be missing.
  private static let proof = 1.0
  private static let doubt = 3.0
}

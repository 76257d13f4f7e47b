package import BLEWire
package import ColmiRing
package import SensorSessions

/// Tables of a ring: one for each subtype, and one of ticks.
package struct RingTables: SampleTables {
  /// Index of the table `samples`.
  private static let ticksTable = RingStream.allCases.count

  private var stream = TickStream()
  private var rows = TickRows()
  private var clock = ClockSetting()

  package init() {}

  package var tables: [RecordedTable] { RingStream.allCases.map(\.table) + [TickRows.table] }
  package var ticks: TickReport? { stream.report }
  package var dropouts: [Int?] { RingStream.allCases.map { $0.hasDropouts ? droppedOut[$0.rawValue] : nil } }
  /// Number of dropouts by `RingStream.rawValue`.
  private var droppedOut: InlineArray<3, Int> = .init(repeating: 0)

  package static func time(of sample: RingRawReading) -> ReceiveTime { sample.time }
  package mutating func begin(_ clock: ClockSetting) { self.clock = clock }

  package mutating func append(_ sample: RingRawReading, to files: inout RecordingFiles) {
    guard let table = sample.stream?.rawValue else { return }
    guard !repeats.isRepeat(sample.sample, link: sample.link) else { return repeated += 1 }
    files.append(sample, to: table)
    if sample.sample.isDropout { droppedOut[table] += 1 }
    stream.take(sample.sample, at: sample.time, link: sample.link, clock: clock)
    takeTicks(&files)
  }

  package mutating func finish(_ files: inout RecordingFiles) {
    stream.finish()
    takeTicks(&files)
  }

  package var account: TableAccount {
    var account = losses.account(stream.report)
    account.repeated = repeated
    return account
  }
  private var losses = RingLosses()
  private var repeats = RingRepeats()
  private var repeated = 0

  private mutating func takeTicks(_ files: inout RecordingFiles) {
    while let placed = stream.next() {
      losses.take(placed)
      files.append(rows.row(placed), to: Self.ticksTable)
      files.live?.take(placed)
    }
  }
}

/// Counts the samples missing according to a ring's clock: samples of completely missing ticks, and missing
/// samples of received ticks.
package struct RingLosses: Sendable {
  /// Maximum tick rate of a ring, in ticks per second. Faster ticks come from a replayed log or a test, whose
  /// timestamps do not follow the ring's clock.
  private static let fastestTicks = 1_000.0

  private struct Last: Sendable {
    var index: Int
    var time: ReceiveTime
    /// Number of missing ticks up to this tick.
    var missingTicks: Int
  }

  private var account = TableAccount()
  /// The last tick that contained the part, by `RingTick.Part.rawValue`.
  private var last: [Last?] = RingTick.Part.allCases.map { _ in nil }
  private var missing: [Int] = RingTick.Part.allCases.map { _ in 0 }
  /// Number of missing samples of completely missing ticks, by `RingTick.Part.rawValue`.
  private var whole: [Int] = RingTick.Part.allCases.map { _ in 0 }
  private var missingTicks = 0

  package init() {}

  package mutating func take(_ placed: PlacedTick) {
    // Reserve memory before the first missing sample, so that the first gap of a long stream does not
    // allocate.
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

  /// Returns the numbers of missing samples.
  ///
  /// - Parameter report: summary of the ring's ticks. It determines which parts each tick has; other parts
  ///   are not lost. If the residual of the timestamps exceeds one tick period, it does not prove that whole
  ///   ticks are missing. If the residual exceeds 3 periods, it does not prove that no ticks are missing.
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
    // If the number of ticks that the ring produced is unknown, more ticks may be missing.
    if report.clock.missingAtMost == nil { account.isNumbered = false }
    return account
  }

  /// Maximum residual of the timestamps, in tick periods, at which missing ticks are certain.
  private static let proof = 1.0
  /// Maximum residual of the timestamps, in tick periods, at which the absence of missing ticks is certain.
  private static let doubt = 3.0
}

/// Creates the rows of the table `samples`: one row per tick on the sensor's own clock, with kernel timestamp
/// and values of each received subtype.
package struct TickRows: Sendable {

  package init() {}
  package static let table = RecordedTable(
    name: "samples",
    columns: [.time("fitted_time_ns")]
      + ["tick", "missing_before", "fit"].map { RecordedColumn($0, .int64) }
      + [RingStream.spO2, .ppg, .accelerometer].flatMap {
        [.time("\($0.name)_time_ns")] + $0.values(.float32(decimals: 0))
      },
    content: .derived)

  /// Number of the current fit, from 1. Each restart of the sensor's clock and each step of the wall clock
  /// starts a new fit.
  private var fit = 1

  /// Returns the row of the next tick.
  mutating func row(_ placed: PlacedTick) -> TickRow {
    if placed.isRestart || placed.isClockSet { fit += 1 }
    return TickRow(placed: placed, fit: fit)
  }

  package mutating func append(_ placed: PlacedTick, to text: inout [UInt8]) {
    row(placed).appendRow(to: &text)
  }
}

/// One tick in the table.
struct TickRow: RecordedRow {
  let placed: PlacedTick
  let fit: Int

  func encode<Output: RowOutput>(into output: inout Output) {
    output.append(placed.fittedTime.nanoseconds)
    output.append(Int64(placed.index))
    output.append(Int64(placed.missingBefore))
    output.append(Int64(fit))
    placed.tick.encode(.spO2, into: &output)
    placed.tick.encode(.ppg, into: &output)
    placed.tick.encode(.accelerometer, into: &output)
  }
}

extension RingTick {
  /// Appends timestamp and values, or empty cells if the part was not received.
  fileprivate func encode<Output: RowOutput>(_ part: Part, into output: inout Output) {
    guard let time = time(of: part), let sample = sample(of: part) else {
      return output.appendMissing(part == .accelerometer ? 7 : 5)
    }
    output.append(time.nanoseconds)
    output.append(sample)
  }

  private func sample(of part: Part) -> RingRawSample? {
    switch part {
    case .spO2: spO2.map { .spO2($0) }
    case .ppg: ppg.map { .ppg($0) }
    case .accelerometer: accelerometer.map { .accelerometer($0) }
    }
  }
}

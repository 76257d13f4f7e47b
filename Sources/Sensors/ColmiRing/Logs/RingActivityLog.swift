import BLEWire

/// What was walked in one slot of a day. Section 3, 0x43.
public struct RingActivityRecord: Hashable, Sendable, BitwiseCopyable {
  public let date: RingLogDate
  /// 0 … 95, of 15 minutes each from the ring's midnight; all captures have hourly sums at multiples of 4.
  public let slot: UInt8
  /// From 0.
  public let index: UInt8
  /// In the log's unit.
  public let calories: UInt16
  public let steps: UInt16
  public let distanceMeters: UInt16

  /// From midnight; `nil` for a slot that no day has.
  public var startMinute: Int? { slot < 96 ? Int(slot) * 15 : nil }

  init(_ bytes: Span<UInt8>) {
    date = RingLogDate(year: bytes[1], month: bytes[2], day: bytes[3])
    slot = bytes[4]
    index = bytes[5]
    calories = bytes.u16(at: 7)
    steps = bytes.u16(at: 9)
    distanceMeters = bytes.u16(at: 11)
  }
}

/// A day's activity; slots without any are left out. Section 3, 0x43.
public struct RingActivityLog: Hashable, Sendable {
  public enum CalorieUnit: Hashable, Sendable, BitwiseCopyable {
    /// Ten small calories: 100 to the kilocalorie.
    case tenCalories
    /// Another flag than 1: the unit is not known.
    case unknown(flag: UInt8)
  }

  /// As announced by the header or, without one, by the records.
  public let recordCount: Int
  /// `nil` where no header came.
  public let calorieUnit: CalorieUnit?
  /// By index.
  public let records: [RingActivityRecord]
  /// Indices that did not come; empty where the log is complete.
  public let missingRecords: [Int]

  public var isComplete: Bool { missingRecords.isEmpty }
  public var steps: Int { records.reduce(0) { $0 + Int($1.steps) } }
  public var distanceMeters: Int { records.reduce(0) { $0 + Int($1.distanceMeters) } }
  /// `nil` where the unit is not known.
  public var kilocalories: Double? {
    calorieUnit == .tenCalories ? Double(records.reduce(0) { $0 + Int($1.calories) }) / 100 : nil
  }
}

/// Puts a day's activity together from its frames, in whatever order and however often they come.
///
/// The header is `43 F0`, number of records, flag of the unit. Each record tells its index and their number,
/// little-endian counters, and its date as binary-coded decimals. Where the header is lost or comes last, the
/// log completes without it and has no unit. As with `RingDayLogAssembler` a log that stops half-way stays
/// open until the caller's timer calls `finish`.
public struct RingActivityLogAssembler: Sendable {
  /// Octet 6 counts records.
  static let maximumRecordCount = 0xFF

  public private(set) var counters = RingLogCounters()
  /// Whether the record with the highest index is there. With `isOpen`, some were lost.
  public var hasLastRecord: Bool { count.map { $0 > 0 && records[$0 - 1] != nil } ?? false }
  /// Whether something of a log came, and something is still missing.
  public var isOpen: Bool { !isFinished && count != nil }

  private var header: Header?
  /// From the header, else from the first record.
  private var count: Int?
  private var isFinished = false
  /// By index.
  private var records = [RingActivityRecord?](repeating: nil, count: maximumRecordCount)

  private struct Header: Hashable {
    let recordCount: UInt8
    let flag: UInt8
  }

  public init() {}

  public mutating func receive(_ frame: borrowing RingFrame) -> RingLogStep<RingActivityLog> {
    let step = step(frame)
    return counters.counting(step)
  }

  /// Gives up waiting: the log as far as it came, `nil` where nothing did or it was complete.
  public mutating func finish() -> RingActivityLog? {
    guard isOpen else { return nil }
    isFinished = true
    return log()
  }

  private mutating func step(_ frame: borrowing RingFrame) -> RingLogStep<RingActivityLog> {
    if let opening: RingLogStep<RingActivityLog> = frame.opening(
      ofLog: RingOpcode.activityLog, isFinished: &isFinished)
    {
      return opening
    }
    switch frame.bytes[1] {
    // Not a year: binary-coded decimals have no nibble above 9.
    case 0xF0: return take(header: Header(recordCount: frame.bytes[2], flag: frame.bytes[3]))
    default: return take(RingActivityRecord(frame.bytes), of: frame.bytes[6])
    }
  }

  private mutating func take(header: Header) -> RingLogStep<RingActivityLog> {
    if self.header == header { return .repeated }
    if self.header != nil || count.map({ $0 != Int(header.recordCount) }) ?? false { restart() }
    self.header = header
    count = Int(header.recordCount)
    return progress()
  }

  private mutating func take(_ record: RingActivityRecord, of total: UInt8) -> RingLogStep<RingActivityLog> {
    if let count, count != Int(total) { return .rejected(.recordCount(total, announced: count)) }
    guard record.index < total else { return .rejected(.index(record.index, count: Int(total))) }
    count = Int(total)
    guard let earlier = records[Int(record.index)] else {
      records[Int(record.index)] = record
      return progress()
    }
    if earlier == record { return .repeated }
    records[Int(record.index)] = record
    counters.changed += 1
    return .incomplete
  }

  /// Another header: the ring began another log.
  private mutating func restart() {
    counters.restarted += 1
    for index in records.indices { records[index] = nil }
  }

  private mutating func progress() -> RingLogStep<RingActivityLog> {
    guard let count, !records[0..<count].contains(nil) else { return .incomplete }
    isFinished = true
    return .complete(log())
  }

  private func log() -> RingActivityLog {
    let count = count ?? 0
    let unit = header.map { header -> RingActivityLog.CalorieUnit in
      header.flag == 1 ? .tenCalories : .unknown(flag: header.flag)
    }
    return RingActivityLog(
      recordCount: count, calorieUnit: unit, records: records.compactMap { $0 },
      missingRecords: (0..<count).filter { records[$0] == nil })
  }
}

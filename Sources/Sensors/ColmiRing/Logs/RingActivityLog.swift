import BLEWire

/// Activity in one slot of a day. Section 3, 0x43.
public struct RingActivityRecord: Hashable, Sendable, BitwiseCopyable {
  public let date: RingLogDate
  /// 0 to 95: slots of 15 minutes from the ring's midnight. All captures have hourly sums, at multiples of 4.
  public let slot: UInt8
  /// Index of the record, from 0.
  public let index: UInt8
  /// In the log's unit.
  public let calories: UInt16
  public let steps: UInt16
  public let distanceMeters: UInt16

  /// Minutes from midnight; `nil` if the slot is out of range.
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

/// A day's activity. Slots without activity are omitted. Section 3, 0x43.
public struct RingActivityLog: Hashable, Sendable {
  public enum CalorieUnit: Hashable, Sendable, BitwiseCopyable {
    /// Units of ten small calories: 100 per kilocalorie.
    case tenCalories
    /// An unknown unit: the flag is not 1.
    case unknown(flag: UInt8)
  }

  /// Number of records from the header or, without one, from the records.
  public let recordCount: Int
  /// Unit of the calories; `nil` if no header was received.
  public let calorieUnit: CalorieUnit?
  /// Records in order of their index.
  public let records: [RingActivityRecord]
  /// Indices of missing records; empty if the log is complete.
  public let missingRecords: [Int]

  public var isComplete: Bool { missingRecords.isEmpty }
  public var steps: Int { records.reduce(0) { $0 + Int($1.steps) } }
  public var distanceMeters: Int { records.reduce(0) { $0 + Int($1.distanceMeters) } }
  /// Energy in kilocalories; `nil` if the unit is unknown.
  public var kilocalories: Double? {
    calorieUnit == .tenCalories ? Double(records.reduce(0) { $0 + Int($1.calories) }) / 100 : nil
  }
}

/// Assembles a day's activity from its frames, which may arrive in any order and repeatedly.
///
/// The header is `43 F0`, number of records, flag of the unit. Each record has its index and the number of
/// records, little-endian counters, and its date as binary-coded decimals. If the header is lost or comes
/// last, the log completes without it and has no unit. As with `RingDayLogAssembler`, an incomplete log stays
/// open until the caller's timer calls `finish`.
public struct RingActivityLogAssembler: Sendable {
  /// Maximum number of records: byte 6 holds the number.
  static let maximumRecordCount = 0xFF

  public private(set) var counters = RingLogCounters()
  /// Whether the record with the highest index was received. If `isOpen` is also true, some were lost.
  public var hasLastRecord: Bool { count.map { $0 > 0 && records[$0 - 1] != nil } ?? false }
  /// Whether the log has begun and is incomplete.
  public var isOpen: Bool { !isFinished && count != nil }

  private var header: Header?
  /// Number of records, from the header or else from the first record.
  private var count: Int?
  private var isFinished = false
  /// Records by index.
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

  /// Stops waiting. Returns the incomplete log; `nil` if nothing was received or the log was complete.
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
    // 0xF0 is no year: binary-coded decimals have no nibble above 9.
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

  /// Starts over after a different header: the ring began another log.
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

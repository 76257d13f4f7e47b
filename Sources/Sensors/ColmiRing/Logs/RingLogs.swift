import BLEWire

/// Result of processing a frame in a log's assembler.
public enum RingLogStep<Log: Sendable>: Sendable {
  /// The frame belongs to the log, which is still incomplete.
  case incomplete
  /// The frame completed the log. The result for later frames is `foreign`.
  case complete(Log)
  /// The frame does not belong to the log. Rings send unsolicited frames at any time.
  case foreign
  /// An identical frame was received before.
  case repeated
  /// There is no log for the day.
  case noData
  /// The ring does not know the command.
  case refused(code: UInt8)
  /// The frame contradicts the log so far, and is ignored.
  case rejected(RingLogError)
}

extension RingLogStep: Equatable where Log: Equatable {}

/// Reason why a frame of a log is rejected.
public enum RingLogError: Error, Hashable, Sendable, BitwiseCopyable {
  /// Invalid number of frames.
  case frameCount(UInt8)
  /// Invalid interval between samples, in minutes.
  case interval(UInt8)
  /// The index of a frame or record is not below the announced count.
  case index(UInt8, count: Int)
  /// The frame echoes the day of another request.
  case otherDay(RingDayLog.Day)
  /// The number of records in a record differs from the number in the header or in earlier records.
  case recordCount(UInt8, announced: Int)
}

extension RingLogError: CustomStringConvertible {
  public var description: String {
    switch self {
    case .frameCount(let count): "a log cannot have \(counted(count, "frame"))"
    case .interval(let minutes): "a log cannot have a sample every \(counted(minutes, "minute"))"
    case .index(let index, let count): "frame or record \(index) is beyond the announced \(count)"
    case .otherDay: "the log is of another day"
    case .recordCount(let count, let announced):
      "a record announces \(counted(count, "record")), the header \(announced)"
    }
  }
}

/// Numbers of events in an assembler.
public struct RingLogCounters: Hashable, Sendable, BitwiseCopyable {
  public private(set) var foreign = 0
  public private(set) var repeated = 0
  /// Number of frames that were received again with different bytes. The later bytes are used, because
  /// today's log grows.
  public fileprivate(set) var changed = 0
  public fileprivate(set) var rejected = 0
  /// Number of logs abandoned because another one began.
  public fileprivate(set) var restarted = 0

  /// Counts a result and returns it.
  fileprivate mutating func counting<Log>(_ step: RingLogStep<Log>) -> RingLogStep<Log> {
    switch step {
    case .foreign: foreign += 1
    case .repeated: repeated += 1
    case .rejected: rejected += 1
    case .incomplete, .complete, .noData, .refused: break
    }
    return step
  }
}

extension RingFrame {
  /// Returns the result of a frame that does not belong to the log, or that reports an error or missing data;
  /// `nil` for a frame of the log.
  fileprivate func opening<Log>(ofLog opcode: UInt8, isFinished: inout Bool) -> RingLogStep<Log>? {
    guard !isFinished else { return .foreign }
    if isError, refusedOpcode == opcode {
      isFinished = true
      return .refused(code: bytes[1])
    }
    guard self.opcode == opcode else { return .foreign }
    guard bytes[1] == 0xFF else { return nil }
    isFinished = true
    return .noData
  }
}

// MARK: - Values of a day

/// Samples of one day at equal intervals, from midnight on the ring's clock.
///
/// Ring protocol, section 3, 0x15 (beats per minute), 0x37 (0 to 100), 0x39 (milliseconds), 0x7A (unknown).
public struct RingDayLog: Hashable, Sendable {
  /// Day of the log. The ring echoes it from the request.
  public enum Day: Hashable, Sendable, BitwiseCopyable {
    /// Day of a heart-rate log: seconds since 1970, with the ring's clock interpreted as UTC. The ring echoes
    /// the value of the request unchanged, including the time of day.
    case timestamp(UInt32)
    /// Day of any other log.
    case daysAgo(UInt8)
  }

  public let kind: RingLogKind
  /// Number of frames announced in the header, including the header.
  public let frameCount: Int
  public let intervalMinutes: Int
  /// The requested day, as echoed; `nil` if the frame with the echo is missing.
  public let day: Day?
  /// One byte per slot; 0 if there is no sample. Slots in the future and slots of missing frames are 0 or
  /// stale.
  public let samples: [UInt8]
  /// Numbers of missing frames; empty if the log is complete.
  public let missingFrames: [Int]

  public var isComplete: Bool { missingFrames.isEmpty }

  /// Slots with a sample.
  public var entries: [Entry] {
    samples.indices.filter { samples[$0] != 0 }.map { Entry(slot: $0, value: samples[$0]) }
  }

  public struct Entry: Hashable, Sendable, BitwiseCopyable {
    public let slot: Int
    public let value: UInt8

    public init(slot: Int, value: UInt8) {
      self.slot = slot
      self.value = value
    }
  }
}

/// Assembles a day's log from its frames. Frames may arrive in any order and more than once.
///
/// Frame 0 is a header: byte 2 is the number of frames, including itself, and byte 3 the interval in minutes.
/// Frame 1 begins with the echo of the request (four bytes little-endian for the heart rate, otherwise one
/// byte). All later frames have 13 samples. An incomplete log stays open until the caller calls `finish`
/// after a timeout. Pass all frames of the channel; frames of other logs are ignored.
public struct RingDayLogAssembler: Sendable {
  private static let frameSampleByteCount = 13
  /// Maximum number of frames. Byte 1 is the frame number; 0xFF means that there is no log.
  private static let maximumFrameCount = 0xFF

  public let kind: RingLogKind
  public private(set) var counters = RingLogCounters()
  /// Whether the frame with the highest number was received. If the log is still open then, frames were lost.
  public var hasLastFrame: Bool { header.map { received[$0.frameCount - 1] } ?? false }
  /// Whether the log has begun and is incomplete.
  public var isOpen: Bool { !isFinished && received.contains(true) }

  private let asked: RingDayLog.Day?
  private var header: Header?
  private var day: RingDayLog.Day?
  private var isFinished = false
  /// Whether each frame was received, by frame number.
  private var received = [Bool](repeating: false, count: maximumFrameCount)
  /// Samples of all frames: 13 bytes per frame, from frame 1.
  private var octets = [UInt8](repeating: 0, count: (maximumFrameCount - 1) * frameSampleByteCount)

  private struct Header: Hashable {
    let frameCount: Int
    let intervalMinutes: Int
  }

  /// Creates an assembler for one log.
  ///
  /// - Parameters:
  ///   - kind: kind of log; not `activity`, whose log has another form.
  ///   - day: the requested day. Replies for another day are rejected. `nil` accepts the first reply.
  public init(_ kind: RingLogKind, day: RingDayLog.Day? = nil) {
    precondition(kind != .activity, "the activity log has records, not slots")
    self.kind = kind
    asked = day
  }

  public mutating func receive(_ frame: borrowing RingFrame) -> RingLogStep<RingDayLog> {
    let step = step(frame)
    return counters.counting(step)
  }

  /// Ends the log and returns its received part; `nil` if no frame was received or the log was complete.
  public mutating func finish() -> RingDayLog? {
    guard isOpen else { return nil }
    isFinished = true
    return log()
  }

  private mutating func step(_ frame: borrowing RingFrame) -> RingLogStep<RingDayLog> {
    if let opening: RingLogStep<RingDayLog> = frame.opening(ofLog: kind.rawValue, isFinished: &isFinished) {
      return opening
    }
    switch frame.bytes[1] {
    case 0: return take(header: frame.bytes)
    default: return take(samples: frame.bytes)
    }
  }

  private mutating func take(header bytes: Span<UInt8>) -> RingLogStep<RingDayLog> {
    let header = Header(frameCount: Int(bytes[2]), intervalMinutes: Int(bytes[3]))
    guard 2..<Self.maximumFrameCount ~= header.frameCount else { return .rejected(.frameCount(bytes[2])) }
    guard header.intervalMinutes > 0 else { return .rejected(.interval(bytes[3])) }
    if self.header == header { return .repeated }
    if self.header != nil { restart() }
    self.header = header
    received[0] = true
    for index in header.frameCount..<Self.maximumFrameCount where received[index] {
      received[index] = false
      counters.rejected += 1
    }
    return progress()
  }

  private mutating func take(samples bytes: Span<UInt8>) -> RingLogStep<RingDayLog> {
    let index = Int(bytes[1])
    if let header, index >= header.frameCount {
      return .rejected(.index(bytes[1], count: header.frameCount))
    }
    if index == 1 {
      let echo = echo(bytes)
      if let expected = asked ?? day, expected != echo { return .rejected(.otherDay(echo)) }
      day = echo
    }
    let start = (index - 1) * Self.frameSampleByteCount
    var differs = false
    for offset in 0..<Self.frameSampleByteCount {
      if octets[start + offset] != bytes[2 + offset] { differs = true }
      octets[start + offset] = bytes[2 + offset]
    }
    guard received[index] else {
      received[index] = true
      return progress()
    }
    guard differs else { return .repeated }
    counters.changed += 1
    return .incomplete
  }

  private func echo(_ bytes: Span<UInt8>) -> RingDayLog.Day {
    guard kind == .heartRate else { return .daysAgo(bytes[2]) }
    var timestamp: UInt32 = 0
    for index in 0..<4 { timestamp |= UInt32(bytes[2 + index]) << (8 * UInt32(index)) }
    return .timestamp(timestamp)
  }

  /// Starts again after a different header, with which the ring began another log. Earlier frames belong to
  /// the previous log.
  private mutating func restart() {
    counters.restarted += 1
    day = nil
    for index in received.indices { received[index] = false }
    for index in octets.indices { octets[index] = 0 }
  }

  private mutating func progress() -> RingLogStep<RingDayLog> {
    guard let header, !received[0..<header.frameCount].contains(false), let log = log() else {
      return .incomplete
    }
    isFinished = true
    return .complete(log)
  }

  private func log() -> RingDayLog? {
    guard let header else { return nil }
    let echoByteCount = kind == .heartRate ? 4 : 1
    let end = (header.frameCount - 1) * Self.frameSampleByteCount
    // The last frame has room for more samples than there are slots.
    let count = min(1440 / header.intervalMinutes, end - echoByteCount)
    return RingDayLog(
      kind: kind, frameCount: header.frameCount, intervalMinutes: header.intervalMinutes, day: day,
      samples: Array(octets[echoByteCount..<echoByteCount + count]),
      missingFrames: (0..<header.frameCount).filter { !received[$0] })
  }
}

// MARK: - Activity

/// Activity in one slot of a day. Ring protocol, section 3, 0x43.
public struct RingActivityRecord: Hashable, Sendable, BitwiseCopyable {
  public let date: RingLogDate
  /// Number of the 15-minute slot after midnight on the ring's clock, 0 to 95. All captures have hourly sums,
  /// at multiples of 4.
  public let slot: UInt8
  /// Index of the record, from 0.
  public let index: UInt8
  /// Energy in the log's unit.
  public let calories: UInt16
  public let steps: UInt16
  public let distanceMeters: UInt16

  /// Start in minutes after midnight; `nil` if the slot is out of range.
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

/// A day's activity. Slots without activity are omitted. Ring protocol, section 3, 0x43.
public struct RingActivityLog: Hashable, Sendable {
  public enum CalorieUnit: Hashable, Sendable, BitwiseCopyable {
    /// Units of ten small calories; 100 units are a kilocalorie.
    case tenCalories
    /// Unknown unit: the flag is not 1.
    case unknown(flag: UInt8)
  }

  /// Number of records according to the header, otherwise according to the records.
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

/// Assembles a day's activity from its frames. Frames may arrive in any order and more than once.
///
/// The header is `43 F0`, number of records, flag of the unit. Each record has its index and the number of
/// records, little-endian counters, and its date as binary-coded decimals. If the header is lost or arrives
/// last, the log completes without it and has no unit. As with `RingDayLogAssembler`, an incomplete log stays
/// open until the caller calls `finish` after a timeout.
public struct RingActivityLogAssembler: Sendable {
  /// Maximum number of records. The number is stored in one byte.
  private static let maximumRecordCount = 0xFF

  public private(set) var counters = RingLogCounters()
  /// Whether the record with the highest index was received. If the log is still open then, records were
  /// lost.
  public var hasLastRecord: Bool { count.map { $0 > 0 && records[$0 - 1] != nil } ?? false }
  /// Whether the log has begun and is incomplete.
  public var isOpen: Bool { !isFinished && count != nil }

  private var header: Header?
  /// Number of records according to the header, otherwise according to the first record.
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

  /// Ends the log and returns its received part; `nil` if nothing was received or the log was complete.
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
    // 0xF0 cannot be a year, because the year is a binary-coded decimal.
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

  /// Starts again after a different header, with which the ring began another log.
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

// MARK: - Temperature

/// One packet of a day's temperatures: days ago, interval, number of packets, index, then little-endian
/// hundredths of a degree Celsius, 0 for no value. Ring protocol, section 4.4, 0x77; not confirmed by a
/// capture.
public struct RingIntervalTemperaturePacket: Hashable, Sendable {
  public let daysAgo: UInt8
  public let intervalMinutes: UInt8
  public let packetCount: UInt8
  /// Index of the packet, from 0.
  public let index: UInt8
  /// Temperatures in hundredths of a degree Celsius.
  public let samples: [UInt16]

  init(_ payload: Span<UInt8>) throws(WireError) {
    guard payload.count >= 4, payload.count.isMultiple(of: 2) else {
      let needed = max(4, payload.count + payload.count % 2)
      throw .payload(at: payload.count, .truncated(needed: needed, available: payload.count))
    }
    daysAgo = payload[0]
    intervalMinutes = payload[1]
    packetCount = payload[2]
    index = payload[3]
    var samples: [UInt16] = []
    for offset in stride(from: 4, to: payload.count, by: 2) { samples.append(payload.u16(at: offset)) }
    self.samples = samples
  }
}

/// A day's temperatures at equal intervals.
public struct RingIntervalTemperatureLog: Hashable, Sendable {
  public let daysAgo: UInt8
  public let intervalMinutes: Int
  /// Readings with a value. Readings after a missing packet are omitted, because their time is unknown.
  public let readings: [RingTemperatureDay.Reading]
  /// Indices of missing packets; empty if the log is complete.
  public let missingPackets: [Int]

  public var isComplete: Bool { missingPackets.isEmpty }
}

/// Assembles a day's temperatures. Each packet must be requested separately; request `nextPacket` next.
///
/// If the result is `repeated`, stop: the ring sends the same packet again.
public struct RingIntervalTemperatureAssembler: Sendable {
  public let daysAgo: UInt8
  public private(set) var counters = RingLogCounters()
  /// Index of the next packet to request; `nil` if all packets were received.
  public var nextPacket: UInt8? {
    guard let header else { return 0 }
    return (0..<header.packetCount).first { packets[Int($0)] == nil }
  }

  private var header: Header?
  private var isFinished = false
  /// Samples by packet index.
  private var packets = [[UInt16]?](repeating: nil, count: 256)

  private struct Header: Hashable {
    let intervalMinutes: UInt8
    let packetCount: UInt8
  }

  public init(daysAgo: UInt8) { self.daysAgo = daysAgo }

  public mutating func receive(_ packet: RingIntervalTemperaturePacket) -> RingLogStep<
    RingIntervalTemperatureLog
  > {
    let step = step(packet)
    return counters.counting(step)
  }

  /// Ends the log and returns its received part; `nil` if nothing was received or the log was complete.
  public mutating func finish() -> RingIntervalTemperatureLog? {
    guard !isFinished, header != nil else { return nil }
    isFinished = true
    return log()
  }

  private mutating func step(_ packet: RingIntervalTemperaturePacket) -> RingLogStep<
    RingIntervalTemperatureLog
  > {
    guard !isFinished else { return .foreign }
    guard packet.daysAgo == daysAgo else { return .rejected(.otherDay(.daysAgo(packet.daysAgo))) }
    guard packet.intervalMinutes > 0 else { return .rejected(.interval(packet.intervalMinutes)) }
    guard packet.index < packet.packetCount else {
      return .rejected(.index(packet.index, count: Int(packet.packetCount)))
    }
    let header = Header(intervalMinutes: packet.intervalMinutes, packetCount: packet.packetCount)
    if let earlier = self.header, earlier != header {
      guard earlier.packetCount == packet.packetCount else {
        return .rejected(.recordCount(packet.packetCount, announced: Int(earlier.packetCount)))
      }
      return .rejected(.interval(packet.intervalMinutes))
    }
    self.header = header
    let earlier = packets[Int(packet.index)]
    if earlier == packet.samples { return .repeated }
    packets[Int(packet.index)] = packet.samples
    if earlier != nil { counters.changed += 1 }
    guard nextPacket == nil else { return .incomplete }
    isFinished = true
    return .complete(log())
  }

  private func log() -> RingIntervalTemperatureLog {
    let interval = Int(header?.intervalMinutes ?? 0)
    let indices = 0..<Int(header?.packetCount ?? 0)
    var readings: [RingTemperatureDay.Reading] = []
    var slot = 0
    for index in indices {
      guard let samples = packets[index] else { break }
      for sample in samples {
        if sample != 0, slot * interval < 1440 {
          readings.append(RingTemperatureDay.Reading(minute: slot * interval, celsius: Double(sample) / 100))
        }
        slot += 1
      }
    }
    return RingIntervalTemperatureLog(
      daysAgo: daysAgo, intervalMinutes: interval, readings: readings,
      missingPackets: indices.filter { packets[$0] == nil })
  }
}

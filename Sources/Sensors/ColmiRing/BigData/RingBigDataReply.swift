public import BLEWire

/// Decoded message from a ring on the big data channel. Ring protocol, section 4.
public enum RingBigDataReply: Hashable, Sendable {
  /// Data ID 0x27.
  case sleepLog([RingSleep])
  /// Data ID 0x3E, also unsolicited.
  case nap([RingSleep])
  /// Data ID 0x2A.
  case spO2([RingSpO2Day])
  /// Data ID 0x25.
  case temperature([RingTemperatureDay])
  /// Data ID 0x28.
  case manualHeartRate(RingManualHeartRate)
  /// Data ID 0x77: one part of a day's temperatures. `RingIntervalTemperatureAssembler` joins the parts.
  case intervalTemperature(RingIntervalTemperaturePacket)
  /// Data IDs 0x30, 0x42, 0x4A: acknowledgement. Code 0 means success.
  case status(id: UInt8, code: UInt8)
  /// Data IDs 0x01 to 0x05. Ring protocol, section 6.
  case firmware(RingFirmwareReply)
  case unknown(RingBigData)

  /// Decodes a message without checking its checksum; see `RingBigData.isChecksumValid`.
  ///
  /// - Throws: `truncated` or `invalidValue`, with the offset of the invalid byte in the message.
  public init(decoding message: RingBigData) throws(WireError) {
    let payload = message.payload
    let span = payload.span
    switch message.id {
    case RingBigDataID.sleep: self = .sleepLog(try RingSleep.records(span))
    case RingBigDataID.nap: self = .nap(try RingSleep.records(span))
    case RingBigDataID.spO2: self = .spO2(try RingSpO2Day.days(span))
    case RingBigDataID.temperature: self = .temperature(try RingTemperatureDay.days(span))
    case RingBigDataID.manualHeartRate: self = .manualHeartRate(try RingManualHeartRate(span))
    case RingBigDataID.intervalTemperature:
      self = .intervalTemperature(try RingIntervalTemperaturePacket(span))
    case RingBigDataID.beginSync, RingBigDataID.lastSyncReply, RingBigDataID.profile:
      self = .status(id: message.id, code: try span.payloadOctet(0))
    case 0x01...0x05:
      self = .firmware(RingFirmwareReply(command: message.id, status: try span.payloadOctet(0)))
    default: self = .unknown(message)
    }
  }
}

/// Sleep of one night, or a nap. Ring protocol, section 4.2.
public struct RingSleep: Hashable, Sendable {
  public struct Stage: RawRepresentable, Hashable, Sendable, BitwiseCopyable {
    public let rawValue: UInt8
    public init(rawValue: UInt8) { self.rawValue = rawValue }

    public static let none = Stage(rawValue: 0)
    public static let error = Stage(rawValue: 1)
    public static let light = Stage(rawValue: 2)
    public static let deep = Stage(rawValue: 3)
    public static let rapidEyeMovement = Stage(rawValue: 4)
    public static let awake = Stage(rawValue: 5)
  }

  public struct Span: Hashable, Sendable, BitwiseCopyable {
    public let stage: Stage
    public let minutes: UInt8

    public init(stage: Stage, minutes: UInt8) {
      self.stage = stage
      self.minutes = minutes
    }
  }

  /// Number of days since the day on which the sleep ended.
  public let daysAgo: UInt8
  /// Start in minutes after midnight on the ring's clock, as received. If it is greater than `endMinute`, the
  /// sleep began the day before.
  public let startMinute: Int16
  public let endMinute: Int16
  public let stages: [Span]

  /// Size of the record after its length field, in bytes.
  public var byteCount: Int { 4 + 2 * stages.count }
  /// Start in minutes relative to midnight of the day on which the sleep ended; negative if the sleep began
  /// the day before.
  public var startMinuteOfEndDay: Int { Int(startMinute) - (startMinute > endMinute ? 1440 : 0) }
  /// Sum of the stages, in minutes. It equals the time from start to end in every capture.
  public var stageMinutes: Int { stages.reduce(0) { $0 + Int($1.minutes) } }

  /// Decodes the number of records and the records. Each has: days ago, length of the remaining bytes, start
  /// and end (signed, little-endian), and pairs of stage and minutes.
  static func records(_ payload: Swift.Span<UInt8>) throws(WireError) -> [RingSleep] {
    var records: [RingSleep] = []
    var offset = 1
    for _ in 0..<Int(try payload.payloadOctet(0)) {
      try payload.requirePayload(offset + 2)
      let byteCount = Int(payload[offset + 1])
      guard byteCount >= 4, byteCount.isMultiple(of: 2) else {
        throw .payload(at: offset + 1, .invalidValue(UInt32(byteCount)))
      }
      try payload.requirePayload(offset + 2 + byteCount)
      records.append(RingSleep(payload.extracting(offset..<offset + 2 + byteCount)))
      offset += 2 + byteCount
    }
    return records
  }

  private init(_ record: Swift.Span<UInt8>) {
    daysAgo = record[0]
    startMinute = Int16(bitPattern: record.u16(at: 2))
    endMinute = Int16(bitPattern: record.u16(at: 4))
    var stages: [Span] = []
    for offset in stride(from: 6, to: record.count, by: 2) {
      stages.append(Span(stage: Stage(rawValue: record[offset]), minutes: record[offset + 1]))
    }
    self.stages = stages
  }
}

/// Blood oxygen saturation of a day. Ring protocol, section 4.3.
public struct RingSpO2Day: Hashable, Sendable {
  public struct Hour: Hashable, Sendable, BitwiseCopyable {
    /// Hour on the ring's clock, 0 to 23.
    public let hour: UInt8
    /// Lower saturation of the hour, in percent. Which of the two bytes is the minimum is unknown: they are
    /// equal in every capture.
    public let minimum: UInt8
    public let maximum: UInt8

    public init(hour: UInt8, minimum: UInt8, maximum: UInt8) {
      self.hour = hour
      self.minimum = minimum
      self.maximum = maximum
    }
  }

  public let daysAgo: UInt8
  /// Hours that have a value.
  public let hours: [Hour]

  /// Decodes blocks of 49 bytes: days ago, then two bytes per hour, 0 for no value.
  static func days(_ payload: Span<UInt8>) throws(WireError) -> [RingSpO2Day] {
    try payload.blocks(of: 49) { block in
      var hours: [Hour] = []
      for hour in 0..<24 {
        let pair = (block[1 + 2 * hour], block[2 + 2 * hour])
        guard pair != (0, 0) else { continue }
        hours.append(Hour(hour: UInt8(hour), minimum: min(pair.0, pair.1), maximum: max(pair.0, pair.1)))
      }
      return RingSpO2Day(daysAgo: block[0], hours: hours)
    }
  }
}

/// Skin temperature of a day, every half hour. Ring protocol, section 4.4. Published clients agree on the
/// layout, but no capture confirms it.
public struct RingTemperatureDay: Hashable, Sendable {
  public struct Reading: Hashable, Sendable, BitwiseCopyable {
    /// Minutes after midnight on the ring's clock, in multiples of the interval.
    public let minute: Int
    public let celsius: Double

    public init(minute: Int, celsius: Double) {
      self.minute = minute
      self.celsius = celsius
    }
  }

  public let daysAgo: UInt8
  /// Interval in minutes, as received. The only known value is 30, and `readings` assumes it.
  public let intervalMinutes: UInt8
  public let readings: [Reading]

  /// Decodes blocks of 50 bytes: days ago, 0x1E, then 48 unsigned values in tenths of a degree above 20 °C, 0
  /// for no value.
  static func days(_ payload: Span<UInt8>) throws(WireError) -> [RingTemperatureDay] {
    try payload.blocks(of: 50) { block in
      var readings: [Reading] = []
      for slot in 0..<48 where block[2 + slot] != 0 {
        readings.append(Reading(minute: slot * 30, celsius: Double(200 + Int(block[2 + slot])) / 10))
      }
      return RingTemperatureDay(daysAgo: block[0], intervalMinutes: block[1], readings: readings)
    }
  }
}

/// Heart rates measured on demand. Ring protocol, section 4.4, 0x28; inferred from one capture.
public struct RingManualHeartRate: Hashable, Sendable {
  public struct Entry: Hashable, Sendable, BitwiseCopyable {
    /// Minutes after midnight on the ring's clock; little-endian.
    public let minute: UInt16
    public let beatsPerMinute: UInt8

    public init(minute: UInt16, beatsPerMinute: UInt8) {
      self.minute = minute
      self.beatsPerMinute = beatsPerMinute
    }
  }

  public let daysAgo: UInt8
  public let entries: [Entry]

  init(_ payload: Span<UInt8>) throws(WireError) {
    daysAgo = try payload.payloadOctet(0)
    guard (payload.count - 1).isMultiple(of: 3) else {
      throw .payload(
        at: payload.count, .truncated(needed: payload.count / 3 * 3 + 4, available: payload.count))
    }
    var entries: [Entry] = []
    for offset in stride(from: 1, to: payload.count, by: 3) {
      entries.append(Entry(minute: payload.u16(at: offset), beatsPerMinute: payload[offset + 2]))
    }
    self.entries = entries
  }
}

extension Span where Element == UInt8 {
  fileprivate func requirePayload(_ byteCount: Int) throws(WireError) {
    guard count >= byteCount else {
      throw .payload(at: count, .truncated(needed: byteCount, available: count))
    }
  }

  func payloadOctet(_ offset: Int) throws(WireError) -> UInt8 {
    try requirePayload(offset + 1)
    return self[offset]
  }

  fileprivate func blocks<Block>(
    of byteCount: Int, _ body: (Span<UInt8>) -> Block
  ) throws(WireError) -> [Block] {
    try requirePayload((count + byteCount - 1) / byteCount * byteCount)
    var blocks: [Block] = []
    for offset in stride(from: 0, to: count, by: byteCount) {
      blocks.append(body(extracting(offset..<offset + byteCount)))
    }
    return blocks
  }
}

extension WireError {
  /// Returns an error at a position in the payload of a message.
  ///
  /// - Parameter offset: offset in the payload, in bytes.
  static func payload(at offset: Int, _ reason: Reason) -> WireError {
    WireError(.ring, offset: RingBigData.headerByteCount + offset, reason)
  }
}

import BLEWire
import JSONText

/// Message of the big data channel in either direction: 0xBC, data ID, length, CRC, payload. Ring protocol,
/// section 4.
///
/// If the MTU is small, a message can be longer than a notification; see `RingBigDataReassembler`.
public struct RingBigData: Hashable, Sendable {
  public static let opcode: UInt8 = 0xBC
  public static let headerByteCount = 6

  public let id: UInt8
  /// Transmitted checksum: CRC-16/MODBUS of the payload, little-endian in the message.
  public let checksum: UInt16
  /// Whether `checksum` matches the payload. It does in every captured message of a ring.
  public let isChecksumValid: Bool
  public let payload: [UInt8]

  /// Creates a message to send.
  public init(id: UInt8, payload: [UInt8] = []) {
    precondition(payload.count <= Int(UInt16.max), "the length field has 16 bits")
    self.id = id
    checksum = Self.checksum(of: payload.span)
    isChecksumValid = true
    self.payload = payload
  }

  /// Parses a complete message. A message with a wrong checksum is accepted; check `isChecksumValid`.
  ///
  /// - Throws: `notBigData`, `length`.
  public init(parsing message: Span<UInt8>) throws(RingBigDataError) {
    guard !message.isEmpty, message[0] == Self.opcode else {
      throw .notBigData(octet: message.isEmpty ? nil : message[0])
    }
    guard message.count >= Self.headerByteCount,
      message.count == Self.headerByteCount + Int(message.u16(at: 2))
    else {
      let claimed = message.count >= 4 ? Int(message.u16(at: 2)) : 0
      throw .length(claimed: Self.headerByteCount + claimed, available: message.count)
    }
    id = message[1]
    checksum = message.u16(at: 4)
    let octets = message.extracting(Self.headerByteCount...)
    isChecksumValid = checksum == Self.checksum(of: octets)
    payload = [UInt8](encoding: octets.count) { $0.append(octets) }
  }

  public var byteCount: Int { Self.headerByteCount + payload.count }

  public func encode(into output: inout OutputSpan<UInt8>) {
    output.append(Self.opcode)
    output.append(id)
    output.append(u16: UInt16(payload.count))
    output.append(u16: checksum)
    let payload = payload
    output.append(payload.span)
  }

  /// Returns the CRC-16/MODBUS of the bytes: reflected, polynomial 0xA001, initial value 0xFFFF. The checksum
  /// of "123456789" is 0x4B37.
  public static func checksum(of octets: Span<UInt8>) -> UInt16 {
    var checksum: UInt16 = 0xFFFF
    for index in octets.indices {
      checksum ^= UInt16(octets[index])
      for _ in 0..<8 { checksum = checksum & 1 == 0 ? checksum >> 1 : checksum >> 1 ^ 0xA001 }
    }
    return checksum
  }
}

/// Error while parsing or reassembling a message of the big data channel.
public enum RingBigDataError: Error, Hashable, Sendable {
  /// The checksum does not match. The associated value is the received message.
  case checksum(RingBigData)
  /// The length field exceeds the reassembler's limit.
  case tooLong(id: UInt8, byteCount: Int)
  /// Another message began before this message was complete, or the caller abandoned it. `received` and
  /// `expected` are in bytes, including the header.
  case interrupted(id: UInt8?, received: Int, expected: Int?)
  /// Bytes after the end of a message that do not begin another message.
  case excess(byteCount: Int)
  /// A value was received while no message was open, and it does not begin a message. `octet` is its first
  /// byte; `nil` for an empty value.
  case notBigData(octet: UInt8?)
  /// The size of an unfragmented message differs from its length field. Sizes include the header.
  case length(claimed: Int, available: Int)
}

extension RingBigDataError: CustomStringConvertible {
  public var description: String {
    switch self {
    case .checksum(let message): "the checksum of message \(Self.hex(message.id)) does not match"
    case .tooLong(let id, let byteCount):
      "message \(Self.hex(id)) is too long: it announces \(counted(byteCount, "byte"))"
    case .interrupted(let id, let received, let expected):
      "\(id.map { "message \(Self.hex($0))" } ?? "a message") was interrupted after "
        + counted(received, "byte") + (expected.map { " of \($0)" } ?? "")
    case .excess(let byteCount): "\(counted(byteCount, "byte")) after the end of a message"
    case .notBigData(let octet?): "\(Self.hex(octet)) does not begin a message"
    case .notBigData(nil): "an empty value does not begin a message"
    case .length(let claimed, let available):
      "the message announces \(counted(claimed, "byte")), but has \(available)"
    }
  }

  private static func hex(_ octet: UInt8) -> String { "0x" + String(octet, radix: 16) }
}

/// Request of a host on the big data channel. Section 4.
public enum RingBigDataRequest: Hashable, Sendable {
  /// Requested part of a log. The firmware determines which forms a ring supports. On Realtek hardware, try
  /// `day` first, then the other forms.
  public enum Extent: Hashable, Sendable, BitwiseCopyable {
    /// No payload.
    case plain
    /// `FF`.
    case all
    /// Two bytes: the day, 0xFF for all stored days, and 1.
    case day(daysAgo: UInt8)
  }

  /// Data ID 0x27.
  case sleepLog(Extent)
  /// Data ID 0x2A.
  case spO2(Extent)
  /// Data ID 0x25.
  case temperature(days: UInt8)
  /// Data ID 0x28. `daysAgo` is 0xFF for all days.
  case manualHeartRate(daysAgo: UInt8)
  /// Data ID 0x30. The vendor's app sends this request first.
  case beginSync
  /// Data ID 0x41; the ring replies with 0x42. The timestamp is in seconds since 1970 on the host's clock.
  case lastSync(timestamp: UInt32)
  /// Data ID 0x77: one part of a day's temperature history.
  case intervalTemperature(daysAgo: UInt8, packet: UInt8)

  public var message: RingBigData {
    switch self {
    case .sleepLog(let extent): RingBigData(id: RingBigDataID.sleep, payload: extent.payload)
    case .spO2(let extent): RingBigData(id: RingBigDataID.spO2, payload: extent.payload)
    case .temperature(let days): RingBigData(id: RingBigDataID.temperature, payload: [days])
    case .manualHeartRate(let day): RingBigData(id: RingBigDataID.manualHeartRate, payload: [day])
    case .beginSync: RingBigData(id: RingBigDataID.beginSync)
    case .lastSync(let timestamp):
      RingBigData(
        id: RingBigDataID.lastSync, payload: (0..<4).map { UInt8(truncatingIfNeeded: timestamp >> (8 * $0)) })
    case .intervalTemperature(let day, let packet):
      RingBigData(id: RingBigDataID.intervalTemperature, payload: [day, packet])
    }
  }

  /// Decodes a message from a host; `nil` for any other request.
  public init?(_ message: RingBigData) {
    let payload = message.payload
    switch (message.id, payload.count) {
    case (RingBigDataID.sleep, _):
      guard let extent = Extent(payload) else { return nil }
      self = .sleepLog(extent)
    case (RingBigDataID.spO2, _):
      guard let extent = Extent(payload) else { return nil }
      self = .spO2(extent)
    case (RingBigDataID.temperature, 1): self = .temperature(days: payload[0])
    case (RingBigDataID.manualHeartRate, 1): self = .manualHeartRate(daysAgo: payload[0])
    case (RingBigDataID.beginSync, 0): self = .beginSync
    case (RingBigDataID.lastSync, 4): self = .lastSync(timestamp: payload.span.u32(at: 0))
    case (RingBigDataID.intervalTemperature, 2):
      self = .intervalTemperature(daysAgo: payload[0], packet: payload[1])
    default: return nil
    }
  }
}

extension RingBigDataRequest.Extent {
  fileprivate var payload: [UInt8] {
    switch self {
    case .plain: []
    case .all: [0xFF]
    case .day(let daysAgo): [daysAgo, 1]
    }
  }

  fileprivate init?(_ payload: [UInt8]) {
    switch (payload.count, payload.last) {
    case (0, _): self = .plain
    case (1, 0xFF): self = .all
    case (2, 1): self = .day(daysAgo: payload[0])
    default: return nil
    }
  }
}

/// Data IDs: byte 1 of a message. Ring protocol, section 4.
package enum RingBigDataID {
  package static let temperature: UInt8 = 0x25
  package static let sleep: UInt8 = 0x27
  package static let manualHeartRate: UInt8 = 0x28
  package static let spO2: UInt8 = 0x2A
  package static let beginSync: UInt8 = 0x30
  package static let nap: UInt8 = 0x3E
  package static let lastSync: UInt8 = 0x41
  package static let lastSyncReply: UInt8 = 0x42
  package static let bloodSugar: UInt8 = 0x47
  package static let profile: UInt8 = 0x4A
  package static let intervalTemperature: UInt8 = 0x77

  /// Returns whether the ID is known. The IDs of firmware updates are included.
  package static func isKnown(_ id: UInt8) -> Bool {
    switch id {
    case 0x01...0x05, temperature, sleep, manualHeartRate, spO2, beginSync, nap, lastSync, lastSyncReply,
      bloodSugar, profile, intervalTemperature:
      true
    default: false
    }
  }
}

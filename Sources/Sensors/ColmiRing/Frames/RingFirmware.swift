import BLEWire

/// Request that starts a firmware update. Ring protocol, section 6. It exists for decoding logs; only experts
/// should send it.
///
/// A wrong image makes a ring permanently unusable, so these requests are not part of `RingBigDataRequest`.
/// Sending the image itself is not supported.
public enum RingFirmwareRequest: Hashable, Sendable, BitwiseCopyable {
  /// Data ID 0x01.
  case start
  /// Data ID 0x02.
  case initialise(RingFirmwareImage)

  public var message: RingBigData {
    switch self {
    case .start: RingBigData(id: 0x01)
    case .initialise(let image): RingBigData(id: 0x02, payload: image.octets)
    }
  }

  /// Decodes a firmware request from a host's message. Returns `nil` for any other message.
  public init?(_ message: RingBigData) {
    switch (message.id, message.payload.count) {
    case (0x01, 0): self = .start
    case (0x02, RingFirmwareImage.byteCount):
      let payload = message.payload
      self = .initialise(RingFirmwareImage(payload.span))
    default: return nil
    }
  }
}

/// Description of a firmware image, sent before the image. All fields are little-endian. Ring protocol,
/// section 6.
public struct RingFirmwareImage: Hashable, Sendable, BitwiseCopyable {
  static let byteCount = 9

  /// Type of the image. With type 1, the ring checks the hardware's name; with type 4, some rings do not.
  public let type: UInt8
  public let byteCount: UInt32
  /// CRC-16/MODBUS of the image.
  public let checksum: UInt16
  /// Sum of all bytes, modulo 65,536.
  public let sum: UInt16

  public init(type: UInt8, byteCount: UInt32, checksum: UInt16, sum: UInt16) {
    self.type = type
    self.byteCount = byteCount
    self.checksum = checksum
    self.sum = sum
  }

  public init(type: UInt8, image: Span<UInt8>) {
    precondition(image.count <= Int(UInt32.max), "the length field has 32 bits")
    var sum: UInt16 = 0
    for index in image.indices { sum &+= UInt16(image[index]) }
    self.init(
      type: type, byteCount: UInt32(image.count), checksum: RingBigData.checksum(of: image), sum: sum)
  }

  init(_ payload: Span<UInt8>) {
    self.init(
      type: payload[0], byteCount: payload.u32(at: 1), checksum: payload.u16(at: 5), sum: payload.u16(at: 7))
  }

  fileprivate var octets: [UInt8] {
    [UInt8](encoding: Self.byteCount) {
      $0.append(type)
      $0.append(u32: byteCount)
      $0.append(u16: checksum)
      $0.append(u16: sum)
    }
  }
}

/// Reply to a message of a firmware update. Ring protocol, section 6.
public struct RingFirmwareReply: Hashable, Sendable, BitwiseCopyable {
  public struct Status: RawRepresentable, Hashable, Sendable, BitwiseCopyable {
    public let rawValue: UInt8
    public init(rawValue: UInt8) { self.rawValue = rawValue }

    public static let done = Status(rawValue: 0)
    public static let size = Status(rawValue: 1)
    public static let content = Status(rawValue: 2)
    public static let state = Status(rawValue: 3)
    public static let format = Status(rawValue: 4)
    public static let `internal` = Status(rawValue: 5)
    public static let lowBattery = Status(rawValue: 6)
  }

  /// ID of the message that the ring replies to.
  public let command: UInt8
  public let status: Status

  init(command: UInt8, status: UInt8) {
    self.command = command
    self.status = Status(rawValue: status)
  }
}

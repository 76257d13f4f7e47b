public import BLEWire

/// Record format of a btsnoop file: the header's datalink number.
public enum BTSnoopFormat: UInt32, Hashable, Sendable, BitwiseCopyable {
  /// HCI packets without a type byte: flags distinguish commands and events from data.
  case unencapsulated = 1001
  /// HCI packets with their H4 type byte. Written by Android, and read by all programs.
  case h4 = 1002
  /// BlueZ's monitor: the flags contain adapter and opcode, and there are other records between the packets.
  case monitor = 2001
}

/// The first 16 bytes of the file, all big-endian.
public struct BTSnoopHeader: Hashable, Sendable, BitwiseCopyable {
  public static let byteCount = 16
  /// `btsnoop` and a zero, as one number.
  @usableFromInline static let magic: UInt64 = 0x6274_736E_6F6F_7000
  public static let version: UInt32 = 1

  public let format: BTSnoopFormat

  @inlinable public init(format: BTSnoopFormat) { self.format = format }

  /// - Throws: `truncated`; `invalidValue` at the magic (offset 0), the version (8) or the datalink (12).
  public init(validating octets: Span<UInt8>) throws(WireError) {
    try octets.require(Self.byteCount, .btsnoop)
    guard octets.u64BE(at: 0) == Self.magic else {
      throw WireError(.btsnoop, offset: 0, .invalidValue(octets.u32BE(at: 0)))
    }
    guard octets.u32BE(at: 8) == Self.version else {
      throw WireError(.btsnoop, offset: 8, .invalidValue(octets.u32BE(at: 8)))
    }
    guard let format = BTSnoopFormat(rawValue: octets.u32BE(at: 12)) else {
      throw WireError(.btsnoop, offset: 12, .invalidValue(octets.u32BE(at: 12)))
    }
    self.format = format
  }

  public func encode(into output: inout OutputSpan<UInt8>) {
    output.append(u64BE: Self.magic)
    output.append(u32BE: Self.version)
    output.append(u32BE: format.rawValue)
  }
}

/// The 24 bytes before each packet, all big-endian.
public struct BTSnoopRecordHeader: Hashable, Sendable, BitwiseCopyable {
  public static let byteCount = 24
  /// Microseconds from the format's epoch, midnight of 1 January of the year 0, to the Unix epoch.
  public static let unixEpochMicroseconds: Int64 = 0x00DC_DDB3_0F2F_8000

  /// Size of the original packet in bytes.
  public var originalByteCount: UInt32
  /// Number of bytes of it in the file.
  public var includedByteCount: UInt32
  public var flags: UInt32
  /// Packets that were dropped since the start of the file.
  public var cumulativeDrops: UInt32
  /// Time since the format's epoch.
  public var microseconds: Int64

  public init(
    originalByteCount: UInt32, includedByteCount: UInt32, flags: UInt32, cumulativeDrops: UInt32,
    microseconds: Int64
  ) {
    self.originalByteCount = originalByteCount
    self.includedByteCount = includedByteCount
    self.flags = flags
    self.cumulativeDrops = cumulativeDrops
    self.microseconds = microseconds
  }

  public init(validating octets: Span<UInt8>) throws(WireError) {
    try octets.require(Self.byteCount, .btsnoop)
    originalByteCount = octets.u32BE(at: 0)
    includedByteCount = octets.u32BE(at: 4)
    flags = octets.u32BE(at: 8)
    cumulativeDrops = octets.u32BE(at: 12)
    microseconds = Int64(bitPattern: octets.u64BE(at: 16))
  }

  /// Whether the header is all zeros. A power failure leaves zeros if the disk has the new length of a file
  /// but not its data.
  var isOfZeros: Bool {
    originalByteCount | includedByteCount | flags | cumulativeDrops == 0 && microseconds == 0
  }

  public func encode(into output: inout OutputSpan<UInt8>) {
    output.append(u32BE: originalByteCount)
    output.append(u32BE: includedByteCount)
    output.append(u32BE: flags)
    output.append(u32BE: cumulativeDrops)
    output.append(u64BE: UInt64(bitPattern: microseconds))
  }

  /// The time in nanoseconds since the Unix epoch, clamped to the range of the type.
  public var time: ReceiveTime {
    let (since1970, underflow) = microseconds.subtractingReportingOverflow(Self.unixEpochMicroseconds)
    let (nanoseconds, overflow) = since1970.multipliedReportingOverflow(by: 1_000)
    guard underflow || overflow else { return ReceiveTime(nanoseconds: nanoseconds) }
    return ReceiveTime(nanoseconds: microseconds < 0 ? .min : .max)
  }

  /// Converts to the file's microseconds, rounding down.
  public static func microseconds(of time: ReceiveTime) -> Int64 {
    let (quotient, remainder) = time.nanoseconds.quotientAndRemainder(dividingBy: 1_000)
    return unixEpochMicroseconds + quotient - (remainder < 0 ? 1 : 0)
  }
}

/// Flags of a record in formats 1001 and 1002.
enum BTSnoopFlags {
  /// Bit 0: set if the controller sent the packet.
  static let controllerToHost: UInt32 = 0x01
  /// Bit 1: set for commands and events, clear for data.
  static let commandOrEvent: UInt32 = 0x02
}

/// Opcodes of format 2001 that are HCI packets. `doc/btsnoop-protocol.rst` of BlueZ.
enum BTSnoopMonitorOpcode {
  /// Returns type and direction of a packet, or `nil` for notes.
  static func packet(_ opcode: UInt16) -> (type: HCIPacketType, direction: HCIDirection)? {
    switch opcode {
    case 2: (.command, .hostToController)
    case 3: (.event, .controllerToHost)
    case 4: (.acl, .hostToController)
    case 5: (.acl, .controllerToHost)
    case 6: (.sco, .hostToController)
    case 7: (.sco, .controllerToHost)
    case 18: (.iso, .hostToController)
    case 19: (.iso, .controllerToHost)
    default: nil
    }
  }

  /// Returns the opcode of a packet. Packets without an opcode are stored as vendor diagnostics (11).
  static func opcode(type: HCIPacketType, direction: HCIDirection) -> UInt16 {
    let isFromController = direction == .controllerToHost
    return switch type {
    case .command: 2
    case .event: 3
    case .acl: isFromController ? 5 : 4
    case .sco: isFromController ? 7 : 6
    case .iso: isFromController ? 19 : 18
    default: 11
    }
  }
}

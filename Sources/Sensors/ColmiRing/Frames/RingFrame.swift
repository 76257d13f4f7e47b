public import BLEWire

/// Frame of the ring's command channel in either direction: opcode, 14 bytes of payload, checksum.
///
/// `bytes` borrows the notification's value. Replies have no request number, and rings also send unsolicited
/// frames, so identify a reply by its opcode and not by the last request.
@frozen public struct RingFrame: ~Escapable, Sendable, BitwiseCopyable {
  public static let byteCount = 16
  public static let payloadByteCount = 14
  /// Code of an error reply: unknown command.
  public static let notImplemented: UInt8 = 0xEE

  /// All 16 bytes.
  public let bytes: Span<UInt8>

  /// Validates a received value.
  ///
  /// - Throws: `lengthMismatch` unless there are 16 bytes; `checksum` unless byte 15 is the sum of the other
  ///   bytes modulo 256. The published "modulo 255" matches no capture.
  @_lifetime(copy value)
  @inlinable public init(validating value: Span<UInt8>) throws(WireError) {
    guard value.count == Self.byteCount else {
      throw WireError(
        .ring, offset: 0, .lengthMismatch(claimed: Self.byteCount, available: value.count))
    }
    var sum: UInt8 = 0
    for index in 0..<15 { sum &+= value[index] }
    guard sum == value[15] else {
      throw WireError(.ring, offset: 15, .checksum(expected: sum, found: value[15]))
    }
    bytes = value
  }

  @inlinable public var opcode: UInt8 { bytes[0] }

  @inlinable public var payload: Span<UInt8> {
    @_lifetime(copy self) get { bytes.extracting(1..<15) }
  }

  /// Whether the ring refused a command.
  ///
  /// A refusal is the command's opcode with bit 7 set. Bit 7 is also set in the opcodes of the raw stream
  /// (0xA1), big data (0xBC) and reset (0xFF). For these opcodes, only the code 0xEE marks an error: `A1 EE`
  /// refuses command 0x21, and `A1 01` is a sample.
  @inlinable public var isError: Bool {
    guard opcode & 0x80 != 0 else { return false }
    switch opcode {
    case RingCommand.rawStreamOpcode, 0xBC, 0xFF: return bytes[1] == Self.notImplemented
    default: return true
    }
  }

  /// Opcode of the refused command. Valid only if `isError`.
  @inlinable public var refusedOpcode: UInt8 { opcode & 0x7F }
}

/// Frame to send, including its checksum. It owns its bytes, unlike `RingFrame`, which borrows them.
public struct RingCommand: Hashable, Sendable, BitwiseCopyable {
  public static let batteryOpcode: UInt8 = 0x03
  /// Opcode of the raw sensor stream: control frames to the ring, and samples from the ring.
  public static let rawStreamOpcode: UInt8 = 0xA1

  /// Bytes 0 to 7; byte 0 is the most significant.
  @usableFromInline let high: UInt64
  /// Bytes 8 to 15; byte 15, the checksum, is the least significant.
  @usableFromInline let low: UInt64

  /// Creates a frame and computes its checksum.
  ///
  /// - Parameters:
  ///   - opcode: first byte of the frame.
  ///   - payload: at most 14 bytes; padded with zeros.
  public init(_ opcode: UInt8, payload: Span<UInt8>) {
    precondition(payload.count <= RingFrame.payloadByteCount, "a ring frame has 14 octets of payload")
    var high = UInt64(opcode) << 56
    var low: UInt64 = 0
    var sum = opcode
    for index in payload.indices {
      let octet = payload[index]
      sum &+= octet
      if index < 7 {
        high |= UInt64(octet) << (48 - 8 * UInt64(index))
      } else {
        low |= UInt64(octet) << (56 - 8 * UInt64(index - 7))
      }
    }
    self.high = high
    self.low = low | UInt64(sum)
  }

  /// Creates a command with a payload of at most two bytes.
  public init(_ opcode: UInt8, _ first: UInt8 = 0, _ second: UInt8 = 0) {
    let payload: InlineArray<2, UInt8> = [first, second]
    self.init(opcode, payload: payload.span)
  }

  /// Starts the raw stream. The ring sends one frame of each subtype per firmware tick until the stream is
  /// stopped.
  public static let rawStart = RingCommand(rawStreamOpcode, 0x04)
  /// Stops the raw stream and switches the optical sensor off. Send it twice, 120 ms apart, because a single
  /// stop is not always effective.
  public static let rawStop = RingCommand(rawStreamOpcode, 0x02)
  /// Reads the battery state. The reply has the percentage in byte 1, and a 1 in byte 2 while charging.
  public static let battery = RingCommand(batteryOpcode)

  /// Returns byte `index` of the frame's 16 bytes.
  @inlinable public func octet(_ index: Int) -> UInt8 {
    UInt8(truncatingIfNeeded: index < 8 ? high >> (56 - 8 * UInt64(index)) : low >> (120 - 8 * UInt64(index)))
  }

  public func encode(into output: inout OutputSpan<UInt8>) {
    output.append(u64BE: high)
    output.append(u64BE: low)
  }
}

public import BLEWire
public import Physiology

/// Frame of the raw stream. The ring sends one frame of each subtype per tick, about once per second with
/// stock firmware.
///
/// A frame has no counter and no timestamp, so use the receive time. Decoding does not allocate memory.
@frozen public enum RingRawSample: Hashable, Sendable, BitwiseCopyable {
  /// Subtype 1.
  case spO2(SpO2RawSample)
  /// Subtype 2.
  case ppg(PPGRawSample)
  /// Subtype 3.
  case accelerometer(AccelerometerSample)
  /// Any other subtype. Some rings send subtype 5, whose layout is unknown.
  case unknown(subtype: UInt8)

  /// Decodes a frame.
  ///
  /// - Throws: `unexpectedOpcode` for any frame except raw samples, including the refusal `A1 EE`.
  @inlinable public init(decoding frame: borrowing RingFrame) throws(WireError) {
    guard frame.opcode == RingCommand.rawStreamOpcode, !frame.isError else {
      throw WireError(.ring, offset: 0, .unexpectedOpcode(frame.opcode))
    }
    let bytes = frame.bytes
    switch bytes[1] {
    case 1: self = .spO2(SpO2RawSample(bytes))
    case 2: self = .ppg(PPGRawSample(bytes))
    case 3: self = .accelerometer(AccelerometerSample(bytes))
    case let subtype: self = .unknown(subtype: subtype)
    }
  }

  /// Decodes a raw sample with a known layout; `nil` for any other frame: a reply, a refusal, or another
  /// subtype.
  @inlinable public init?(raw frame: borrowing RingFrame) {
    guard let sample = try? RingRawSample(decoding: frame) else { return nil }
    if case .unknown = sample { return nil }
    self = sample
  }

  /// Decodes a raw sample from a notification that was truncated in the log, if it contains all values. The
  /// bytes after the values, zeros and the checksum, are not needed.
  ///
  /// - Returns: `nil` if the values are incomplete, or if the frame is not a raw sample.
  public init?(cut value: Span<UInt8>) {
    guard value.count >= 10, value.count < RingFrame.byteCount else { return nil }
    var frame = [UInt8](repeating: 0, count: RingFrame.byteCount)
    for index in value.indices { frame[index] = value[index] }
    frame[RingFrame.byteCount - 1] = frame.reduce(0, &+)
    guard let frame = try? RingFrame(validating: frame.span) else { return nil }
    self.init(raw: frame)
  }

  /// Whether the frame has no light reading.
  @inlinable public var isDropout: Bool {
    switch self {
    case .spO2(let sample): sample.reading == nil
    case .ppg(let sample): sample.reading == nil
    case .accelerometer, .unknown: false
    }
  }

  /// Checks and decodes a notification's value.
  @inlinable public init(decoding value: Span<UInt8>) throws(WireError) {
    try self.init(decoding: RingFrame(validating: value))
  }
}

/// Sample of the red LED, in ADC counts without a unit. It is about one averaged reading per frame, not a
/// waveform.
@frozen public struct SpO2RawSample: Hashable, Sendable, BitwiseCopyable {
  /// Light reading in counts; 0 if the ring dropped it.
  public let value: UInt16
  /// Maximum stored by the ring; it rarely changes. `value` can be outside `min` to `max`.
  public let max: UInt16
  public let min: UInt16
  /// Difference with unknown meaning; it is not always `max` − `min`.
  public let diff: UInt16

  /// Light reading in counts; `nil` if the ring dropped it.
  @inlinable public var reading: UInt16? { value == 0 ? nil : value }

  @inlinable public init(value: UInt16, max: UInt16, min: UInt16, diff: UInt16) {
    self.value = value
    self.max = max
    self.min = min
    self.diff = diff
  }

  @inlinable init(_ bytes: Span<UInt8>) {
    self.init(
      value: bytes.u16BE(at: 2), max: bytes.u16BE(at: 4), min: bytes.u16BE(at: 6), diff: bytes.u16BE(at: 8))
  }
}

/// Sample of the green LED, in ADC counts without a unit.
@frozen public struct PPGRawSample: Hashable, Sendable, BitwiseCopyable {
  /// Light reading in counts; 0 if the ring dropped it.
  public let value: UInt16
  /// Maximum stored by the ring. `value` can be outside `min` to `max`.
  public let max: UInt16
  public let min: UInt16
  /// `max` − `min`.
  public let diff: UInt16

  /// Light reading in counts; `nil` if the ring dropped it.
  @inlinable public var reading: UInt16? { value == 0 ? nil : value }

  @inlinable public init(value: UInt16, max: UInt16, min: UInt16, diff: UInt16) {
    self.value = value
    self.max = max
    self.min = min
    self.diff = diff
  }

  @inlinable init(_ bytes: Span<UInt8>) {
    self.init(
      value: bytes.u16BE(at: 2), max: bytes.u16BE(at: 4), min: bytes.u16BE(at: 6), diff: bytes.u16BE(at: 8))
  }
}

/// Acceleration along the ring's axes: z through its centre, y tangential, x along the finger.
///
/// 12 bits, −2,048 to 2,047, 512 per g: a ring at rest has a magnitude near 512.
@frozen public struct AccelerometerSample: Hashable, Sendable, BitwiseCopyable {
  /// Counts per g. The full scale is ±4 g.
  public static let countsPerG = 512.0

  public let x: Int16
  public let y: Int16
  public let z: Int16

  @inlinable public init(x: Int16, y: Int16, z: Int16) {
    self.x = x
    self.y = y
    self.z = z
  }

  @inlinable init(_ bytes: Span<UInt8>) {
    self.init(
      x: Self.axis(bytes, at: 6), y: Self.axis(bytes, at: 2), z: Self.axis(bytes, at: 4))
  }

  /// Acceleration in g. The conversion is exact, because the scale is a power of two.
  @inlinable public var acceleration: Acceleration {
    Acceleration(
      x: Double(x) / Self.countsPerG, y: Double(y) / Self.countsPerG, z: Double(z) / Self.countsPerG)
  }

  /// Decodes an axis from a byte with the upper 8 bits and the low nibble of the next byte. The value is a
  /// 12-bit two's complement number; bit 11 is the sign.
  ///
  /// Some published decoders test bit 7 for the sign, subtract 2,048 and get 3.7 g from a ring at rest. The
  /// upper nibble of the second byte is not part of the value; one ring model sets it.
  @inlinable static func axis(_ bytes: Span<UInt8>, at offset: Int) -> Int16 {
    let bits = UInt16(bytes[offset]) << 4 | UInt16(bytes[offset + 1] & 0x0F)
    // Move the sign bit to the top, so that the shift back extends it.
    return Int16(bitPattern: bits << 4) >> 4
  }
}

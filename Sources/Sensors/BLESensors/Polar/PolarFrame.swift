public import BLEWire

/// Notification of raw data from a Polar sensor: samples of one kind, stored plainly or as differences.
///
/// Online Measurement (2024), 4. `content` borrows the notification's value. `init(validating:)` detects all
/// errors of a frame. `forEachSample` then passes the samples one by one, without allocation.
public struct PolarFrame: ~Escapable, Sendable, BitwiseCopyable {
  public static let headerByteCount = 10
  /// Origin of `timestampNanoseconds`, 2000-01-01T00:00:00, in seconds since the Unix epoch.
  public static let epochUnixSeconds: Int64 = 946_684_800

  public let type: PolarMeasurementType
  /// Time of the last sample in nanoseconds since 2000, on the sensor's clock, which is rarely set correctly;
  /// 0 if unknown.
  public let timestampNanoseconds: UInt64
  /// Type of the frame, 0 … 127.
  public let frameType: UInt8
  /// Whether the frame contains a reference sample followed by differences.
  public let isCompressed: Bool
  /// Bytes after the header.
  public let content: Span<UInt8>
  /// Layout of the samples. `nil` if the content is information about the measurement, or if its type is
  /// unknown.
  public let layout: PolarSampleLayout?
  public let sampleCount: Int

  /// Validates a received value.
  ///
  /// - Throws: `truncated` for a header or a block of differences that does not fit; `lengthMismatch` for a
  ///   plain frame that is not a whole number of samples; `invalidValue` for differences of more than 32
  ///   bits.
  @_lifetime(copy value)
  public init(validating value: Span<UInt8>) throws(WireError) {
    var reader = FieldReader(value, .polarMeasurement)
    type = PolarMeasurementType(rawValue: try reader.u8())
    timestampNanoseconds = try reader.u64()
    let form = try reader.u8()
    frameType = form & 0x7F
    isCompressed = form & 0x80 != 0
    content = value.extracting(Self.headerByteCount...)
    layout = PolarSampleLayout(type, frameType: frameType, isCompressed: isCompressed)
    guard let layout else {
      sampleCount = 0
      return
    }
    guard isCompressed else {
      guard reader.left.isMultiple(of: layout.byteCount) else {
        let whole = reader.left - reader.left % layout.byteCount
        throw WireError(
          .polarMeasurement, offset: Self.headerByteCount + whole,
          .truncated(needed: layout.byteCount, available: reader.left - whole))
      }
      sampleCount = reader.left / layout.byteCount
      return
    }
    _ = try reader.take(layout.byteCount)
    var count = 1
    while reader.left > 0 { count += try reader.deltaBlock(channelCount: layout.channelCount).sampleCount }
    sampleCount = count
  }

  /// Calls `body` with each sample as `channelCount` numbers. Floating-point numbers are passed as bit
  /// patterns.
  ///
  /// `PolarSampleLayout.Form` states the meaning of the numbers; `PolarUnits` converts them to units.
  public func forEachSample(_ body: (_ sample: Span<Int32>) -> Void) {
    guard let layout else { return }
    var values = InlineArray<25, Int32>(repeating: 0)
    guard isCompressed else {
      var offset = 0
      while offset < content.count {
        layout.readSample(content, at: offset, into: &values)
        body(values.span.extracting(first: layout.channelCount))
        offset += layout.byteCount
      }
      return
    }
    layout.readSample(content, at: 0, into: &values)
    body(values.span.extracting(first: layout.channelCount))
    var blocks = deltaBlocks
    while let block = blocks.next() {
      var bits = PackedBits(content, at: block.start)
      for _ in 0..<block.sampleCount {
        for channel in 0..<layout.channelCount { values[channel] &+= bits.next(block.deltaBits) }
        body(values.span.extracting(first: layout.channelCount))
      }
    }
  }

  /// Copies as many whole samples as fit.
  ///
  /// - Returns: the number of copied samples.
  public func copySamples(into output: inout OutputSpan<Int32>) -> Int {
    var count = 0
    var isFull = false
    forEachSample { sample in
      isFull = isFull || output.freeCapacity < sample.count
      if isFull { return }
      for index in sample.indices { output.append(sample[index]) }
      count += 1
    }
    return count
  }

  /// Blocks of differences, in order; empty for a plain frame.
  public var deltaBlocks: PolarDeltaBlocks {
    @_lifetime(copy self) get {
      guard isCompressed, let layout else {
        return PolarDeltaBlocks(content, at: content.count, channelCount: 0)
      }
      return PolarDeltaBlocks(content, at: layout.byteCount, channelCount: layout.channelCount)
    }
  }
}

/// Block of differences of one width.
public struct PolarDeltaBlock: Hashable, Sendable, BitwiseCopyable {
  /// Number of bits per difference, 0 … 32. As in the manufacturer's SDK, a block of 0 bits has no samples,
  /// even if its count field is not 0.
  public let deltaBits: Int
  public let sampleCount: Int
  /// Offset of the packed differences, in bytes.
  let start: Int
}

/// Iterates over the blocks of a validated frame.
public struct PolarDeltaBlocks: ~Escapable {
  private let content: Span<UInt8>
  private var offset: Int
  private let channelCount: Int

  @_lifetime(copy content)
  init(_ content: Span<UInt8>, at offset: Int, channelCount: Int) {
    self.content = content
    self.offset = offset
    self.channelCount = channelCount
  }

  public mutating func next() -> PolarDeltaBlock? {
    guard offset < content.count else { return nil }
    let deltaBits = Int(content[offset])
    let sampleCount = deltaBits == 0 ? 0 : Int(content[offset + 1])
    let block = PolarDeltaBlock(deltaBits: deltaBits, sampleCount: sampleCount, start: offset + 2)
    offset += 2 + packedByteCount(deltaBits * sampleCount * channelCount)
    return block
  }
}

/// Reads two's-complement numbers of any width from bytes, lowest bit first.
private struct PackedBits: ~Escapable {
  private let octets: Span<UInt8>
  private var offset: Int
  /// Bits read but not yet consumed, lowest first.
  private var pending: UInt64 = 0
  private var pendingCount = 0

  @_lifetime(copy octets)
  init(_ octets: Span<UInt8>, at offset: Int) {
    self.octets = octets
    self.offset = offset
  }

  /// Reads the next number.
  ///
  /// - Parameter bits: number of bits, 1 … 32.
  mutating func next(_ bits: Int) -> Int32 {
    while pendingCount < bits {
      pending |= UInt64(octets[offset]) << UInt64(pendingCount)
      offset += 1
      pendingCount += 8
    }
    // Move the sign bit to the top, so that the shift back extends it.
    let value = Int32(truncatingIfNeeded: Int64(bitPattern: pending << UInt64(64 - bits)) >> Int64(64 - bits))
    pending >>= UInt64(bits)
    pendingCount -= bits
    return value
  }
}

/// Returns the number of bytes that contain this many bits.
func packedByteCount(_ bits: Int) -> Int { (bits + 7) / 8 }

extension FieldReader {
  fileprivate mutating func deltaBlock(channelCount: Int) throws(WireError) -> PolarDeltaBlock {
    let deltaBits = Int(try u8())
    guard deltaBits <= 32 else {
      throw WireError(layer, offset: offset - 1, .invalidValue(UInt32(deltaBits)))
    }
    let claimed = Int(try u8())
    let sampleCount = deltaBits == 0 ? 0 : claimed
    let start = try take(packedByteCount(deltaBits * sampleCount * channelCount))
    return PolarDeltaBlock(deltaBits: deltaBits, sampleCount: sampleCount, start: start)
  }
}

extension PolarSampleLayout {
  fileprivate func readSample(
    _ content: Span<UInt8>, at start: Int, into values: inout InlineArray<25, Int32>
  ) {
    switch form {
    case .integers(let bits):
      for channel in 0..<channelCount {
        values[channel] = signed(content, at: start + channel * bits / 8, bits)
      }
    case .floats:
      for channel in 0..<channelCount {
        values[channel] = Int32(bitPattern: content.u32(at: start + 4 * channel))
      }
    case .ecgContact:
      let (low, high) = (Int32(content.u16(at: start)), Int32(content[start + 2]))
      values[0] = low & 0x3FFF
      values[1] = high & 1
      values[2] = high >> 1 & 3
      values[3] = high >> 3 & 3
    case .ecgTags:
      let bits = Int32(bitPattern: content.u24(at: start))
      values[0] = bits & 0x3_FFFF
      values[1] = bits >> 18 & 7
      values[2] = bits >> 21 & 7
    case .ecgPair:
      values[0] = signed(content, at: start, 24)
      values[1] = signed(content, at: start + 3, 24)
      values[2] = Int32(content[start + 6])
    case .ppi:
      values[0] = Int32(content[start])
      values[1] = Int32(content.u16(at: start + 1))
      values[2] = Int32(content.u16(at: start + 3))
      values[3] = Int32(content[start + 5])
    case .octets:
      for channel in 0..<channelCount { values[channel] = Int32(content[start + channel]) }
    }
  }

  private func signed(_ content: Span<UInt8>, at offset: Int, _ bits: Int) -> Int32 {
    switch bits {
    case 8: Int32(Int8(bitPattern: content[offset]))
    case 16: Int32(Int16(bitPattern: content.u16(at: offset)))
    default: Int32(bitPattern: content.u24(at: offset) << 8) >> 8
    }
  }
}

/// Layout of a frame's samples.
///
/// Online Measurement (2024), tables of the frame types, corrected according to the manufacturer's SDK.
public struct PolarSampleLayout: Hashable, Sendable, BitwiseCopyable {
  /// Structure of one sample.
  public enum Form: Hashable, Sendable, BitwiseCopyable {
    /// Signed integers of `bits` bits.
    case integers(bits: Int)
    /// Bit patterns of 32-bit binary floating-point numbers.
    case floats
    /// ECG type 1, three bytes: value of 14 bits, oversampling, skin contact, contact impedance.
    case ecgContact
    /// ECG type 2, three bytes: value of 18 bits, ECG tag, pace tag.
    case ecgTags
    /// ECG type 3, seven bytes: two values of 24 bits, status.
    case ecgPair
    /// Six bytes: heart rate, interval and its error in milliseconds, flags.
    case ppi
    /// Unsigned bytes.
    case octets
  }

  /// Maximum number of values per sample.
  public static let maximumChannelCount = 25

  public let form: Form
  /// Number of values per sample.
  public let channelCount: Int

  init(_ form: Form, _ channelCount: Int) {
    self.form = form
    self.channelCount = channelCount
  }

  /// Finds the layout for a type of frame.
  ///
  /// - Returns: `nil` for an unknown type or a type without samples.
  public init?(_ type: PolarMeasurementType, frameType: UInt8, isCompressed: Bool) {
    let layout = isCompressed ? Self.compressed(type, frameType) : Self.plain(type, frameType)
    guard let layout else { return nil }
    self = layout
  }

  private static func plain(_ type: PolarMeasurementType, _ frameType: UInt8) -> PolarSampleLayout? {
    switch (type, frameType) {
    case (.ecg, 0): PolarSampleLayout(.integers(bits: 24), 1)
    case (.ecg, 1): PolarSampleLayout(.ecgContact, 4)
    case (.ecg, 2): PolarSampleLayout(.ecgTags, 3)
    case (.ecg, 3): PolarSampleLayout(.ecgPair, 3)
    case (.ppg, 0): PolarSampleLayout(.integers(bits: 24), 4)
    case (.accelerometer, 0): PolarSampleLayout(.integers(bits: 8), 3)
    case (.accelerometer, 1): PolarSampleLayout(.integers(bits: 16), 3)
    case (.accelerometer, 2): PolarSampleLayout(.integers(bits: 24), 3)
    case (.ppi, 0): PolarSampleLayout(.ppi, 4)
    case (.pressure, 0), (.temperature, 0), (.skinTemperature, 0): PolarSampleLayout(.floats, 1)
    case (.offlineHeartRate, 0): PolarSampleLayout(.octets, 1)
    case (.offlineHeartRate, 1): PolarSampleLayout(.octets, 3)
    default: nil
    }
  }

  private static func compressed(_ type: PolarMeasurementType, _ frameType: UInt8) -> PolarSampleLayout? {
    switch (type, frameType) {
    case (.accelerometer, 0), (.accelerometer, 1), (.gyroscope, 0), (.magnetometer, 0):
      PolarSampleLayout(.integers(bits: 16), 3)
    case (.gyroscope, 1): PolarSampleLayout(.floats, 3)
    // The fourth value is the calibration state.
    case (.magnetometer, 1): PolarSampleLayout(.integers(bits: 16), 4)
    case (.ppg, 0): PolarSampleLayout(.integers(bits: 24), 4)
    // The last value of each sample is a status.
    case (.ppg, 7): PolarSampleLayout(.integers(bits: 24), 17)
    case (.ppg, 8): PolarSampleLayout(.integers(bits: 24), 25)
    case (.ppg, 10): PolarSampleLayout(.integers(bits: 24), 21)
    case (.ppg, 13): PolarSampleLayout(.integers(bits: 24), 3)
    case (.pressure, 0), (.temperature, 0), (.skinTemperature, 0): PolarSampleLayout(.floats, 1)
    default: nil
    }
  }

  /// Number of bytes per sample. The first sample in a compressed frame has the same size.
  public var byteCount: Int {
    switch form {
    case .integers(let bits): channelCount * (bits / 8)
    case .floats: 4 * channelCount
    case .ecgContact, .ecgTags: 3
    case .ecgPair: 7
    case .ppi: 6
    case .octets: channelCount
    }
  }

  /// Number of bits of a value in the first sample of a compressed frame.
  public var referenceBits: Int {
    switch form {
    case .integers(let bits): bits
    default: 32
    }
  }
}

import BLEWire

/// Encodes frames of raw data as a Polar sensor does: a header, then plain samples, or a reference sample and
/// blocks of differences.
///
/// The order of the values in a sample is the same as in `PolarFrame`.
public struct PolarFrameEncoder: Sendable {
  public let type: PolarMeasurementType
  public let frameType: UInt8
  public let isCompressed: Bool
  public let layout: PolarSampleLayout

  /// Creates an encoder for a type of frame.
  ///
  /// - Returns: `nil` if frames of this type contain no samples.
  public init?(_ type: PolarMeasurementType, frameType: UInt8, isCompressed: Bool) {
    guard let layout = PolarSampleLayout(type, frameType: frameType, isCompressed: isCompressed) else {
      return nil
    }
    self.type = type
    self.frameType = frameType
    self.isCompressed = isCompressed
    self.layout = layout
  }

  /// Encodes the header of a frame.
  ///
  /// - Parameters:
  ///   - timestampNanoseconds: time of the last sample.
  ///   - output: output with room for ten bytes.
  public func encodeHeader(timestampNanoseconds: UInt64, into output: inout OutputSpan<UInt8>) {
    output.append(type.rawValue)
    output.append(u64: timestampNanoseconds)
    output.append(frameType & 0x7F | (isCompressed ? 0x80 : 0))
  }

  /// Encodes a sample of a plain frame, or the first sample of a compressed frame. Bits that do not fit are
  /// dropped.
  public func encodeSample(_ sample: Span<Int32>, into output: inout OutputSpan<UInt8>) {
    precondition(sample.count == layout.channelCount, "a sample has a value for each channel")
    switch layout.form {
    case .integers(let bits):
      for index in sample.indices { append(sample[index], bits: bits, into: &output) }
    case .floats:
      for index in sample.indices { append(sample[index], bits: 32, into: &output) }
    case .ecgContact:
      append(sample[0] & 0x3FFF, bits: 16, into: &output)
      append(sample[1] & 1 | (sample[2] & 3) << 1 | (sample[3] & 3) << 3, bits: 8, into: &output)
    case .ecgTags:
      append(sample[0] & 0x3_FFFF | (sample[1] & 7) << 18 | (sample[2] & 7) << 21, bits: 24, into: &output)
    case .ecgPair:
      append(sample[0], bits: 24, into: &output)
      append(sample[1], bits: 24, into: &output)
      append(sample[2], bits: 8, into: &output)
    case .ppi:
      append(sample[0], bits: 8, into: &output)
      append(sample[1], bits: 16, into: &output)
      append(sample[2], bits: 16, into: &output)
      append(sample[3], bits: 8, into: &output)
    case .octets:
      for index in sample.indices { append(sample[index], bits: 8, into: &output) }
    }
  }

  /// Returns the minimum number of bits for the differences between consecutive samples.
  ///
  /// - Parameters:
  ///   - samples: values of consecutive samples.
  ///   - previous: the sample before the first sample.
  public func deltaBits(_ samples: Span<Int32>, after previous: Span<Int32>) -> Int {
    var bits = 1
    forEachDelta(samples, after: previous) { delta in
      let magnitude = delta < 0 ? ~delta : delta
      bits = max(bits, 33 - magnitude.leadingZeroBitCount)
    }
    return bits
  }

  /// Returns the size of a block in bytes.
  public func blockByteCount(deltaBits: Int, sampleCount: Int) -> Int {
    2 + packedByteCount(deltaBits * sampleCount * layout.channelCount)
  }

  /// Encodes a block of at most 255 samples.
  ///
  /// - Parameters:
  ///   - samples: values of consecutive samples.
  ///   - previous: the sample before the first sample.
  ///   - deltaBits: bits per difference, 1 … 32; at least the result of `deltaBits(_:after:)`.
  ///   - output: output with room for the block.
  public func encodeBlock(
    _ samples: Span<Int32>, after previous: Span<Int32>, deltaBits: Int, into output: inout OutputSpan<UInt8>
  ) {
    let sampleCount = samples.count / layout.channelCount
    precondition(samples.count.isMultiple(of: layout.channelCount) && sampleCount <= 255, "not a block")
    precondition(1...32 ~= deltaBits, "no such width")
    output.append(UInt8(deltaBits))
    output.append(UInt8(sampleCount))
    var pending: UInt64 = 0
    var pendingCount = 0
    let mask = (UInt64(1) << UInt64(deltaBits)) - 1
    forEachDelta(samples, after: previous) { delta in
      pending |= (UInt64(truncatingIfNeeded: delta) & mask) << UInt64(pendingCount)
      pendingCount += deltaBits
      while pendingCount >= 8 {
        output.append(UInt8(truncatingIfNeeded: pending))
        pending >>= 8
        pendingCount -= 8
      }
    }
    if pendingCount > 0 { output.append(UInt8(truncatingIfNeeded: pending)) }
  }

  private func forEachDelta(_ samples: Span<Int32>, after previous: Span<Int32>, _ body: (Int32) -> Void) {
    let channels = layout.channelCount
    for index in samples.indices {
      body(samples[index] &- (index < channels ? previous[index] : samples[index - channels]))
    }
  }

  private func append(_ value: Int32, bits: Int, into output: inout OutputSpan<UInt8>) {
    for octet in 0..<bits / 8 { output.append(UInt8(truncatingIfNeeded: value >> Int32(8 * octet))) }
  }
}

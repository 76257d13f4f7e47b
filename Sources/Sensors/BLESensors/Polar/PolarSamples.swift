import BLEWire

/// ECG sample of a Polar sensor, split into its fields.
///
/// Initialise it with a sample from `PolarFrame.forEachSample`, for a frame of the same kind.
public struct PolarECGSample: Hashable, Sendable, BitwiseCopyable {
  /// Voltage in microvolts; a value without a unit in frames of type 3.
  public let value: Int32
  /// Contact data; only in frames of type 1.
  public let contact: Contact?

  /// Fields that exist only in frames of type 1.
  public struct Contact: Hashable, Sendable, BitwiseCopyable {
    public let isOversampled: Bool
    /// 0 … 3.
    public let skinContact: UInt8
    /// 0 … 3.
    public let impedance: UInt8
  }

  public init(_ sample: Span<Int32>, _ layout: PolarSampleLayout) {
    value = sample[0]
    contact =
      layout.form == .ecgContact
      ? Contact(
        isOversampled: sample[1] != 0, skinContact: UInt8(truncatingIfNeeded: sample[2]),
        impedance: UInt8(truncatingIfNeeded: sample[3]))
      : nil
  }
}

/// Interval between two pulse waves.
public struct PolarPPISample: Hashable, Sendable, BitwiseCopyable {
  /// Heart rate in beats per minute.
  public let heartRate: UInt8
  public let intervalMilliseconds: UInt16
  public let errorEstimateMilliseconds: UInt16
  /// Bit 0: interval not valid; bit 1: skin contact; bit 2: skin contact supported.
  public let flags: UInt8

  public init(_ sample: Span<Int32>) {
    heartRate = UInt8(truncatingIfNeeded: sample[0])
    intervalMilliseconds = UInt16(truncatingIfNeeded: sample[1])
    errorEstimateMilliseconds = UInt16(truncatingIfNeeded: sample[2])
    flags = UInt8(truncatingIfNeeded: sample[3])
  }

  /// Whether movement makes the interval unusable.
  public var isBlocked: Bool { flags & 1 != 0 }
  public var hasSkinContact: Bool { flags & 2 != 0 }
  public var isSkinContactSupported: Bool { flags & 4 != 0 }
}

/// Conversion from raw numbers to units. The factor comes from the response to the start request; the default
/// is 1.
public enum PolarUnits {
  /// Returns the acceleration per count, in milli-g. Compressed frames of type 0 from old firmware are in g;
  /// all other frames are in milli-g.
  public static func accelerometerMilliG(frameType: UInt8, isCompressed: Bool, factor: Double) -> Double {
    switch (isCompressed, frameType) {
    case (true, 0): factor * 1_000
    case (true, _): factor
    case (false, _): 1
    }
  }

  /// Returns the field strength per count of a magnetometer, in gauss. Frames of type 0 are in gauss, frames
  /// of type 1 in milligauss.
  public static func magnetometerGauss(frameType: UInt8, factor: Double) -> Double {
    frameType == 0 ? factor : factor / 1_000
  }

  /// Converts a number of a floating-point layout.
  public static func float(_ value: Int32) -> Float { Float(bitPattern: UInt32(bitPattern: value)) }

  /// Returns the status at the end of a PPG sample with many channels: 20 bits in type 10, 24 bits in other
  /// types.
  public static func ppgStatus(_ value: Int32, frameType: UInt8) -> UInt32 {
    UInt32(bitPattern: value) & (frameType == 10 ? 0xF_FFFF : 0xFF_FFFF)
  }
}

/// Content of a PPG frame without samples.
///
/// Source: the manufacturer's SDK (`PpgData`).
public enum PolarPPGInformation: Hashable, Sendable, BitwiseCopyable {
  /// Frame types 4 and 9: integration counts and the gains of both amplifiers, for twelve channels.
  case integration(InlineGains)
  /// Frame type 5.
  case operationMode(UInt32)
  /// Frame type 6.
  case sport(UInt64)
  /// Frame type 14.
  case gains(count: UInt8, first: UInt8, second: UInt8)

  public struct InlineGains: Sendable, BitwiseCopyable {
    public static let channelCount = 12
    /// 12 integration counts, then 12 pairs of gains.
    private var octets = InlineArray<36, UInt8>(repeating: 0)

    init(_ content: Span<UInt8>) { for index in 0..<36 { octets[index] = content[index] } }

    public func integrationCount(_ channel: Int) -> UInt8 { octets[channel] }
    /// Returns the gain of the first amplifier, 0 … 7.
    public func firstGain(_ channel: Int) -> UInt8 { octets[12 + 2 * channel] & 7 }
    /// Returns the gain of the second amplifier, 0 … 7.
    public func secondGain(_ channel: Int) -> UInt8 { octets[13 + 2 * channel] & 7 }
  }

  /// Decodes a frame.
  ///
  /// - Returns: `nil` if the frame has other content or is too short.
  public init?(_ frame: borrowing PolarFrame) {
    guard frame.type == .ppg, !frame.isCompressed else { return nil }
    let content = frame.content
    switch frame.frameType {
    case 4 where content.count >= 36, 9 where content.count >= 36: self = .integration(InlineGains(content))
    case 5 where content.count >= 4: self = .operationMode(content.u32(at: 0))
    case 6 where content.count >= 8: self = .sport(content.u64(at: 0))
    case 14 where content.count >= 3:
      self = .gains(count: content[0], first: content[1] & 7, second: content[2] & 7)
    default: return nil
    }
  }
}

extension PolarPPGInformation.InlineGains: Hashable {
  public static func == (a: Self, b: Self) -> Bool { (0..<36).allSatisfy { a.octets[$0] == b.octets[$0] } }
  public func hash(into hasher: inout Hasher) { for index in 0..<36 { hasher.combine(octets[index]) } }
}

/// The layout of a frame's samples.
///
/// Online Measurement (2024), tables of the frame types, corrected according to the maker's SDK.
public struct PolarSampleLayout: Hashable, Sendable, BitwiseCopyable {
  /// The structure of one sample.
  public enum Form: Hashable, Sendable, BitwiseCopyable {
    /// Signed integers of `bits` bits.
    case integers(bits: Int)
    /// The bit patterns of 32-bit binary floating-point numbers.
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
    // The last value of each is a status.
    case (.ppg, 7): PolarSampleLayout(.integers(bits: 24), 17)
    case (.ppg, 8): PolarSampleLayout(.integers(bits: 24), 25)
    case (.ppg, 10): PolarSampleLayout(.integers(bits: 24), 21)
    case (.ppg, 13): PolarSampleLayout(.integers(bits: 24), 3)
    case (.pressure, 0), (.temperature, 0), (.skinTemperature, 0): PolarSampleLayout(.floats, 1)
    default: nil
    }
  }

  /// Bytes of one sample, also of the first sample in a compressed frame.
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

  /// Bits of a value in the first sample of a compressed frame.
  public var referenceBits: Int {
    switch form {
    case .integers(let bits): bits
    default: 32
    }
  }
}

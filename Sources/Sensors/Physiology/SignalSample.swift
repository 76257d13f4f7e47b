public import BLEWire

/// Acceleration along three axes, in g.
@frozen public struct Acceleration: Hashable, Sendable, BitwiseCopyable {
  public let x: Double
  public let y: Double
  public let z: Double

  @inlinable public init(x: Double, y: Double, z: Double) {
    self.x = x
    self.y = y
    self.z = z
  }

  /// Magnitude of the vector, in g.
  @inlinable public var magnitude: Double { (x * x + y * y + z * z).squareRoot() }
}

/// Maximum supported sample rate. It limits the size of buffers.
enum SampleRate {
  /// Maximum rate in samples per second. Identical timestamps, or timestamps of a burst, could otherwise give
  /// any rate.
  static let limit = Limit(
    4_096, "samples a second of an analysed signal", by: .air, whenFull: "the signal is not analysed",
    counted: "refusal in `analyse` and `report`")

  /// Returns whether the rate is above the limit; `false` for NaN.
  static func isTooHigh(_ rate: Double) -> Bool { rate > Double(limit.count) }
}

/// Sample of a worn sensor, with its index and time on the sensor's own clock.
@frozen public struct SignalSample: Hashable, Sendable, BitwiseCopyable {
  /// Index of the sample since the first sample. Missing samples are counted too.
  public let index: Int
  /// Time of the sample on the sensor's clock, in nanoseconds since the Unix epoch.
  public let time: ReceiveTime
  /// Whether the time since the previous sample is unknown.
  public let isRestart: Bool
  /// Reflected light, in sensor counts; `nil` if not measured.
  public let light: Double?
  public let acceleration: Acceleration?

  @inlinable public init(
    index: Int, time: ReceiveTime, isRestart: Bool = false, light: Double? = nil,
    acceleration: Acceleration? = nil
  ) {
    self.index = index
    self.time = time
    self.isRestart = isRestart
    self.light = light
    self.acceleration = acceleration
  }
}

public import BLEWire

/// Acceleration along three axes: g.
@frozen public struct Acceleration: Hashable, Sendable, BitwiseCopyable {
  public let x: Double
  public let y: Double
  public let z: Double

  @inlinable public init(x: Double, y: Double, z: Double) {
    self.x = x
    self.y = y
    self.z = z
  }

  /// Length of the vector: g.
  @inlinable public var magnitude: Double { (x * x + y * y + z * z).squareRoot() }
}

/// What bounds the memory of all that is sized by a measured rate.
enum SampleRate {
  /// Samples whose times are all the same have any rate, and so have those of a burst.
  static let limit = Limit(
    4_096, "samples a second of a signal that is looked into", by: .air, whenFull: "nothing is looked for",
    counted: "refusal in `analyse` and `report`")

  /// Whether the rate is above the limit. What is no number is not.
  static func isTooHigh(_ rate: Double) -> Bool { rate > Double(limit.count) }
}

/// What a worn sensor measured at one time, with its place on the sensor's own clock.
@frozen public struct SignalSample: Hashable, Sendable, BitwiseCopyable {
  /// Number of the sample since the first one; those that never came have theirs too.
  public let index: Int
  /// On the sensor's clock: nanoseconds since the Unix epoch.
  public let time: ReceiveTime
  /// Whether nothing is known of the time since the sample before.
  public let isRestart: Bool
  /// Reflected light, in counts of the sensor; `nil` where it was not measured.
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

import BLEWire

/// The relation between an emulated sensor's clock and the time of its wearer's body.
///
/// By default both start with the sensor's stream. Sensors in the same virtual air with `isShared` are on the
/// same body: with the same wearer options they have the same beats and the same steps.
public struct BodyTime: Hashable, Sendable {
  /// Whether the body's time is the time of the virtual air.
  public var isShared = false
  /// Delay between measuring and sending, in seconds.
  public var lateSeconds = 0.0
  /// Rate by which the sensor's clock is fast, as a fraction such as 28e-6.
  public var clockDrift = 0.0
  /// The body's time in seconds when the sensor's clock is 0.
  private(set) var start = 0.0

  public init() {}

  /// Options that have a value.
  static let options = ["late", "clock-ppm"]

  /// Sets an option of `virtual:` if the name is one of `options`.
  ///
  /// - Throws: the valid range.
  mutating func set(_ option: String, _ text: String) throws(Wearer.Refusal) -> Bool {
    switch option {
    case "late": lateSeconds = try Wearer.number(text, 0...10_000, "milliseconds, 0 … 10000,") / 1_000
    case "clock-ppm":
      clockDrift = try Wearer.number(text, -500...500, "parts in a million, -500 … 500,") / 1e6
    default: return false
    }
    return true
  }

  /// Starts the sensor's clock at 0.
  mutating func begin(at now: MonotonicTime) { start = start(at: now) }

  /// The body's time in seconds if the sensor's clock starts now.
  func start(at now: MonotonicTime) -> Double {
    (isShared ? Double(now.nanoseconds) / 1e9 : 0) - lateSeconds
  }

  /// Converts a time of the sensor's clock to the body's time, in seconds.
  func seconds(_ own: Double) -> Double { start + own / (1 + clockDrift) }

  /// Converts a time of the body to the sensor's clock, in seconds.
  func own(_ seconds: Double) -> Double { (seconds - start) * (1 + clockDrift) }

  /// Duration of a second of the sensor's clock, in seconds of the virtual air.
  var pace: Double { 1 / (1 + clockDrift) }
}

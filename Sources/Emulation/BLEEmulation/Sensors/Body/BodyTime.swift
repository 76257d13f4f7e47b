import BLEWire

/// How the clock of an emulated sensor lies to the time of the body that it is on.
///
/// Unless told otherwise both begin with the sensor's stream. Sensors of one air whose bodies' time is that of the air are on one body:
/// with the same options of the wearer they have the same beats and the same steps.
public struct BodyTime: Hashable, Sendable {
  /// Whether the body's time is that of the air.
  public var isShared = false
  /// For how long the sensor keeps what it has measured before it sends it: seconds.
  public var lateSeconds = 0.0
  /// By how much its clock is fast: a share, such as 28e-6.
  public var clockDrift = 0.0
  /// The body's time when the sensor's clock shows 0: seconds.
  private(set) var start = 0.0

  public init() {}

  /// Those with a value.
  static let options = ["late", "clock-ppm"]

  /// Sets what an option of `virtual:` says, if it is one of these.
  ///
  /// - Throws: what is wanted instead.
  mutating func set(_ option: String, _ text: String) throws(Wearer.Refusal) -> Bool {
    switch option {
    case "late": lateSeconds = try Wearer.number(text, 0...10_000, "milliseconds, 0 … 10000,") / 1_000
    case "clock-ppm":
      clockDrift = try Wearer.number(text, -500...500, "parts in a million, -500 … 500,") / 1e6
    default: return false
    }
    return true
  }

  /// The sensor's clock begins at 0.
  mutating func begin(at now: MonotonicTime) { start = start(at: now) }

  /// The body's time when the sensor's clock begins, where that is now: seconds.
  func start(at now: MonotonicTime) -> Double {
    (isShared ? Double(now.nanoseconds) / 1e9 : 0) - lateSeconds
  }

  /// The body's time when the sensor's clock shows so many seconds.
  func seconds(_ own: Double) -> Double { start + own / (1 + clockDrift) }

  /// What the sensor's clock shows at a time of the body.
  func own(_ seconds: Double) -> Double { (seconds - start) * (1 + clockDrift) }

  /// The time of the air that a second of the sensor's clock takes: seconds.
  var pace: Double { 1 / (1 + clockDrift) }
}

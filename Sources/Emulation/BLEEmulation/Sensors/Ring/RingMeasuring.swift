import BLEWire
import ColmiRing

/// A measurement on request: two frames per second, without a value while the sensor warms up. Reference,
/// section 3, 0x69.
struct RingMeasuring {
  /// Interval between frames. CAP1 has 2.03 frames per second.
  static let interval = Duration.milliseconds(500)
  /// Time without a command from the host after which the measurement ends. According to one source; others
  /// observed no end.
  static let patience = Duration.seconds(60)
  /// Number of frames without a value. A real ring takes 26 s; shorter here to save time.
  static let warmUpFrameCount = 4

  let kind: RingMeasurement
  private let base: UInt8
  private var number = 0
  private let start: MonotonicTime
  private var end: MonotonicTime

  /// Returns `nil` for a measurement that this ring does not support.
  init?(_ kind: RingMeasurement, _ features: EmulatedRing.Configuration.Features, now: MonotonicTime) {
    switch kind {
    case .heartRate: base = 78
    case .spO2: base = 97
    case .stress: base = 38
    case .heartRateVariability where features == .all: base = 42
    default: return nil
    }
    self.kind = kind
    start = now.advanced(by: Self.interval)
    end = now.advanced(by: Self.patience)
  }

  var due: MonotonicTime { start.advanced(by: Self.interval * number) }
  /// Whether the measurement has ended because the host sent no command in time.
  var isOver: Bool { due > end }

  mutating func keepAlive(now: MonotonicTime) { end = now.advanced(by: Self.patience) }

  /// The frame that is due, if any.
  mutating func next(now: MonotonicTime) -> [UInt8]? {
    guard due <= now, !isOver else { return nil }
    defer { number += 1 }
    guard number >= Self.warmUpFrameCount else { return ringFrame([0x69, kind.rawValue]) }
    let value = base + UInt8(number % 3)
    let pulse: UInt16 = kind == .spO2 ? 0 : 760 + UInt16(number % 5) * 10
    return ringFrame(
      [0x69, kind.rawValue, 0, value, kind == .spO2 ? 1 : 0, 0, UInt8(pulse & 0xFF), UInt8(pulse >> 8)])
  }
}

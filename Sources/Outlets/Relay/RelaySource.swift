package import BLEHost
import BLESensors
package import BLEWire
package import SensorSessions

/// Converts the samples of one kind of sensor to values of a standard service.
package protocol RelaySource: Sendable {
  associatedtype Sample: NotificationSample

  static var service: RelayedService { get }
  /// Takes the next sample.
  ///
  /// - Parameter give: called with each value that the sample completes.
  mutating func take(_ sample: Sample, _ give: (RelayedValue) -> Void)
  /// Handles a lost link: earlier samples must not affect values of the next link.
  ///
  /// - Returns: a value for the centrals; `nil` if the service cannot express the loss.
  mutating func lost(at time: ReceiveTime) -> RelayedValue?
  /// Number of times that no value was good enough to be sent.
  var silences: Int { get }
  /// Reason why this sensor's data is unusable; `nil` if it is usable or not yet known.
  var refusal: String? { get }
}

extension RelaySource {
  package mutating func lost(at time: ReceiveTime) -> RelayedValue? { nil }
  package var silences: Int { 0 }
  package var refusal: String? { nil }
}

/// Relays a heart-rate sensor's measurements unchanged, except for the energy, which is the sensor's own
/// counter.
package struct HeartRateRelay: RelaySource {
  /// Number of intervals that fit into a value with flags and a 2-byte rate, at an MTU of 23.
  private static let intervalLimit = 8

  private var tellsContact = false

  package init() {}

  package static var service: RelayedService { .heartRate }

  package mutating func take(_ sample: HeartRateSample, _ give: (RelayedValue) -> Void) {
    let measurement = sample.measurement
    tellsContact = measurement.contact != .notSupported
    let intervals = measurement.rrIntervals
    // A measurement with more intervals than fit is split, so that no interval is cut off.
    var start = 0
    repeat {
      let end = min(start + Self.intervalLimit, intervals.count)
      let part = RRIntervals((start..<end).map { intervals[$0] })
      give(
        RelayedValue(
          .heartRate(
            HeartRateMeasurement(
              beatsPerMinute: measurement.beatsPerMinute, contact: measurement.contact,
              rrIntervals: part.count > 0 ? part : nil)), at: sample.time))
      start = end
    } while start < intervals.count
  }

  package mutating func lost(at time: ReceiveTime) -> RelayedValue? {
    tellsContact ? .noContact(at: time) : nil
  }
}

extension RelayedValue {
  /// A heart rate of 0, which means no skin contact, like the contact bit. Heart Rate Service 1.0, 3.1.1.1.2.
  static func noContact(at time: ReceiveTime) -> RelayedValue {
    RelayedValue(.heartRate(HeartRateMeasurement(beatsPerMinute: 0, contact: .notDetected)), at: time)
  }
}

/// Relays a thermometer's values unchanged; for a CORE sensor, its core temperature. Off the body the value
/// is NaN, as the service specifies. A CORE sensor without a reading, or with an invalid one, sends nothing.
package struct TemperatureRelay: RelaySource {
  private static let invalidLevel: UInt8 = 0

  package private(set) var silences = 0

  package init() {}

  package static var service: RelayedService { .healthThermometer }

  package mutating func take(_ sample: TemperatureSample, _ give: (RelayedValue) -> Void) {
    switch sample.reading {
    case .result(let measurement): give(RelayedValue(.temperature(measurement), at: sample.time))
    case .intermediate(let measurement): give(RelayedValue(.intermediate(measurement), at: sample.time))
    case .core(let core):
      guard core.quality?.level != Self.invalidLevel, case .temperature(let hundredths) = core.core else {
        silences += 1
        return
      }
      let number = IEEE11073Float(mantissa: Int32(hundredths), exponent: -2)
      give(
        RelayedValue(
          .temperature(TemperatureMeasurement(number, unit: core.unit, type: .body)), at: sample.time))
    }
  }
}

/// Relays the revolutions of a cycling sensor unchanged.
package struct CyclingRelay: RelaySource {
  package init() {}

  package static var service: RelayedService { .cyclingSpeedAndCadence }

  package mutating func take(_ sample: CyclingSample, _ give: (RelayedValue) -> Void) {
    let speed = CyclingSpeed(wheel: sample.measurement.wheel, crank: sample.measurement.crank)
    give(RelayedValue(.cycling(speed), at: sample.time))
  }
}

package import BLEHost
import BLESensors
package import BLEWire
package import SensorSessions

/// Converts the samples of one kind of sensor to values of a standard service.
package protocol RelaySource: Sendable {
  associatedtype Sample: NotificationSample

  static var service: RelayedService { get }
  /// Converts the next sample.
  ///
  /// - Parameter give: called with each value that the sample completes.
  mutating func take(_ sample: Sample, _ give: (RelayedValue) -> Void)
  /// Handles a lost link. Samples received before the loss must not affect values of the next link.
  ///
  /// - Returns: a value for the centrals; `nil` if the service cannot express the loss.
  mutating func lost(at time: ReceiveTime) -> RelayedValue?
  /// Number of times that no value was sent because its quality was too low.
  var silences: Int { get }
  /// The reason why the sensor's data cannot be used; `nil` if the data can be used, or if this is not
  /// known yet.
  var refusal: String? { get }
}

extension RelaySource {
  package mutating func lost(at time: ReceiveTime) -> RelayedValue? { nil }
  package var silences: Int { 0 }
  package var refusal: String? { nil }
}

/// Relays a heart-rate sensor's measurements unchanged, but without the energy, which is the sensor's own
/// counter.
package struct HeartRateRelay: RelaySource {
  /// Maximum number of RR intervals in a value that also has flags and a 2-byte rate, at an MTU of 23.
  private static let intervalLimit = 8

  private var tellsContact = false

  package init() {}

  package static var service: RelayedService { .heartRate }

  package mutating func take(_ sample: HeartRateSample, _ give: (RelayedValue) -> Void) {
    let measurement = sample.measurement
    tellsContact = measurement.contact != .notSupported
    let intervals = measurement.rrIntervals
    // Split a measurement with more intervals into several values, so that no interval is truncated.
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
  /// Returns a heart rate of 0 with the contact bit unset, which means that there is no skin contact. Heart
  /// Rate Service 1.0, 3.1.1.1.2.
  static func noContact(at time: ReceiveTime) -> RelayedValue {
    RelayedValue(.heartRate(HeartRateMeasurement(beatsPerMinute: 0, contact: .notDetected)), at: time)
  }
}

/// Relays the values of a thermometer unchanged, or the core temperature of a CORE sensor. If the sensor is
/// not worn, the value is NaN, as the service specifies. For a missing or invalid reading of a CORE sensor,
/// nothing is sent.
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

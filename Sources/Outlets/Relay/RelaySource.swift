package import BLEHost
import BLESensors
package import BLEWire
package import SensorSessions

/// Makes values of standard services out of the samples of one kind of sensor.
package protocol RelaySource: Sendable {
  associatedtype Sample: NotificationSample

  static var service: RelayedService { get }
  /// Takes the next sample.
  ///
  /// - Parameter give: gets each value that is known with it.
  mutating func take(_ sample: Sample, _ give: (RelayedValue) -> Void)
  /// The link is lost: nothing of before counts for what comes on the next one.
  ///
  /// - Returns: what centrals are told; `nil` where their service has no word for it.
  mutating func lost(at time: ReceiveTime) -> RelayedValue?
  /// Times at which there might have been a value and there was none good enough.
  var silences: Int { get }
  /// Why no value can be made of what this sensor sends; `nil` where one can, or nothing is known yet.
  var refusal: String? { get }
}

extension RelaySource {
  package mutating func lost(at time: ReceiveTime) -> RelayedValue? { nil }
  package var silences: Int { 0 }
  package var refusal: String? { nil }
}

/// A heart-rate sensor's measurements as they are, but for the energy, which is the sensor's own count.
package struct HeartRateRelay: RelaySource {
  /// As many intervals as a value has room for beside flags and a rate of two octets on a link whose MTU is 23.
  private static let intervalLimit = 8

  private var tellsContact = false

  package init() {}

  package static var service: RelayedService { .heartRate }

  package mutating func take(_ sample: HeartRateSample, _ give: (RelayedValue) -> Void) {
    let measurement = sample.measurement
    tellsContact = measurement.contact != .notSupported
    let intervals = measurement.rrIntervals
    // One that has more than any central may take goes as two: no interval is cut off.
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
  /// A rate of 0 says what the bit says. Heart Rate Service 1.0, 3.1.1.1.2.
  static func noContact(at time: ReceiveTime) -> RelayedValue {
    RelayedValue(.heartRate(HeartRateMeasurement(beatsPerMinute: 0, contact: .notDetected)), at: time)
  }
}

/// A thermometer's values as they are; of a CORE sensor its core temperature. Off the body it is no number, as the service has
/// it; a CORE sensor that has no reading, or an invalid one, says nothing.
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

/// A cyclist's sensor's turns as they are.
package struct CyclingRelay: RelaySource {
  package init() {}

  package static var service: RelayedService { .cyclingSpeedAndCadence }

  package mutating func take(_ sample: CyclingSample, _ give: (RelayedValue) -> Void) {
    let speed = CyclingSpeed(wheel: sample.measurement.wheel, crank: sample.measurement.crank)
    give(RelayedValue(.cycling(speed), at: sample.time))
  }
}

package import BLEHost
import BLELinux
import BLESensors
import BLEWire
import ColmiRing
package import Recording
package import SensorSessions

/// A session with a ring that measures the heart rate itself and reports it twice per second.
///
/// The ring searches for the pulse for up to a minute, without reports. The ring reports missing skin
/// contact.
package struct RingRateSession: SensorSession {
  private let conversation: RingConversation
  private let measuring: Task<Void, Never>

  /// Starts the measurement, and waits until the ring is measuring.
  ///
  /// - Throws: `unsuitable` if the device is not a ring or does not measure.
  package static func start(
    _ settings: Void, on connection: Connection, into sink: SampleSink<HeartRateSample>
  ) async throws(HostError) -> RingRateSession {
    let conversation = try await RingConversation.begin(on: connection)
    let begun = OneShot<RingError?>()
    let measuring = connection.loop.task {
      do throws(RingError) {
        try await conversation.measure(.heartRate, for: nil) { frame, time in
          begun.set(nil)
          sink.take(at: time) { Self.reading(frame, at: time) }
        }
        // The ring stopped the measurement itself. After the end of the session, this call has no effect.
        if !Task.isCancelled { sink.end() }
        begun.set(.interrupted)
      } catch { begun.set(error) }
    }
    if let error = await begun.value(ifCancelled: .interrupted) {
      measuring.cancel()
      if case .host(let error) = error { throw error }
      throw .unsuitable("\(connection.peer) does not measure the heart rate: \(error)")
    }
    return RingRateSession(conversation: conversation, measuring: measuring)
  }

  private static func reading(
    _ frame: RingMeasurementFrame, at time: ReceiveTime
  ) -> SampleReading<HeartRateSample> {
    if frame.fault == .contact {
      return .sample(
        HeartRateSample(HeartRateMeasurement(beatsPerMinute: 0, contact: .notDetected), at: time))
    }
    guard frame.fault == .none, frame.value > 0 else { return .other }
    return .sample(
      HeartRateSample(
        HeartRateMeasurement(beatsPerMinute: UInt16(frame.value), contact: .detected), at: time))
  }

  /// Reads the battery level.
  ///
  /// - Returns: facts with the battery level, if the ring reports it.
  package func complete() async throws(HostError) -> SensorFacts? {
    var facts = SensorFacts()
    facts.bodyLocation = .finger
    if case .battery(let battery)? = try? await conversation.ask(.battery), battery.percent <= 100 {
      facts.battery = BatteryLevel(percent: battery.percent)
    }
    return facts
  }

  /// Stops the ring's measurement.
  package func stop() async {
    measuring.cancel()
    await measuring.value
  }
}

/// Sensor kinds for which the relay requests the device's own heart rate instead of raw data.
package enum OwnHeartRate {
  /// COLMI rings.
  package static var ring: SensorKind<HeartRateSample> { SensorKind(RingRateKind()) }
  package static var polar: SensorKind<HeartRateSample> { SensorKind(PolarRateKind()) }

  private struct RingRateKind: SensorDefinition {
    var name: String { RingKind.name }
    var search: SensorSearch { RingKind().search }
    var settings: Void { () }
    var emulation: SensorEmulation { RingKind().emulation }

    func tables(of session: RingRateSession) -> HeartRateTables { HeartRateTables() }
  }

  private struct PolarRateKind: SensorDefinition {
    var name: String { PolarKind.name }
    var search: SensorSearch { PolarKind().search }
    var settings: HeartRateSession.Settings { .none }
    var emulation: SensorEmulation { PolarKind().emulation }

    func tables(of session: HeartRateSession) -> HeartRateTables { HeartRateTables() }
  }
}

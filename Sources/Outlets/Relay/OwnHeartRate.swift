import ColmiRing
package import Recording
package import SensorSessions

/// Sensor kinds for which the relay requests the heart rate that the device measures, instead of its raw
/// data.
package enum OwnHeartRate {
  /// COLMI rings.
  package static var ring: SensorKind<HeartRateSample> {
    SensorKind(
      SensorKind<RingRawReading>.ring.search, RingRateSession.self, (), emulation: .specification("ring")
    ) { _ in HeartRateTables() }
  }

  package static var polar: SensorKind<HeartRateSample> {
    SensorKind(
      SensorKind<PolarFrameSample>.polar.search, HeartRateSession.self, .none,
      emulation: .specification("polar")
    ) { _ in HeartRateTables() }
  }
}

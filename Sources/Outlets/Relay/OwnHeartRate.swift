import ColmiRing
package import Recording
package import SensorSessions

/// Sensors whose own heart rate is requested instead of their raw data.
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

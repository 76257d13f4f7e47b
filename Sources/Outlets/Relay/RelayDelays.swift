package import BLEDissector
import BLEWire

/// Histograms of the age of values when they are sent. Uses bounded memory.
package struct RelayDelays: Sendable {
  /// Delay of the estimator: from the newest sample on which a value is based to the sample at which the
  /// value was computed, by their kernel timestamps.
  package private(set) var estimator = LogLinearHistogram()
  /// Delay from the end of the estimator's delay until the value is in the queue of a central's link. Counted
  /// for each central.
  package private(set) var transport = LogLinearHistogram()
  /// Sum of both delays.
  package private(set) var total = LogLinearHistogram()

  mutating func add(_ value: RelayedValue, transport nanoseconds: Int64) {
    let waited = (value.knownAt - value.measuredAt).nanoseconds
    estimator.add(waited)
    transport.add(nanoseconds)
    total.add((TimeSpan(nanoseconds: max(0, waited)) + TimeSpan(nanoseconds: nanoseconds)).nanoseconds)
  }
}

package import BLEDissector
import BLEWire

/// Age of values when they are sent. Uses bounded memory.
package struct RelayDelays: Sendable {
  /// Delay from the newest sample used for a value to the sample with which it was computed, both by kernel
  /// timestamps.
  package private(set) var estimator = LogLinearHistogram()
  /// Delay from then until the value is in the queue of a central's link, for each central.
  package private(set) var transport = LogLinearHistogram()
  /// Sum of both.
  package private(set) var total = LogLinearHistogram()

  mutating func add(_ value: RelayedValue, transport nanoseconds: Int64) {
    let waited = (value.knownAt - value.measuredAt).nanoseconds
    estimator.add(waited)
    transport.add(nanoseconds)
    total.add((TimeSpan(nanoseconds: max(0, waited)) + TimeSpan(nanoseconds: nanoseconds)).nanoseconds)
  }
}

package import BLEDissector
import BLEWire

/// How old values are when they leave. Bounded memory.
package struct RelayDelays: Sendable {
  /// From the newest sample that a value is made of to the one with which it was known: both by the kernel's stamps.
  package private(set) var estimator = LogLinearHistogram()
  /// From then until the value is in the queue of a central's link, for each central.
  package private(set) var transport = LogLinearHistogram()
  /// Both together.
  package private(set) var total = LogLinearHistogram()

  mutating func add(_ value: RelayedValue, transport nanoseconds: Int64) {
    let waited = (value.knownAt - value.measuredAt).nanoseconds
    estimator.add(waited)
    transport.add(nanoseconds)
    total.add((TimeSpan(nanoseconds: max(0, waited)) + TimeSpan(nanoseconds: nanoseconds)).nanoseconds)
  }
}

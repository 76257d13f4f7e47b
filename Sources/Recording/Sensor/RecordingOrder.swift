package import BLEHost
package import SensorSessions

/// What one recording of any kind of sensor is to be: of which device, into which directory, until when.
package struct RecordingOrder: Sendable {
  /// The report, and what ended the recording before its time.
  package typealias Outcome = (report: SessionReport, failure: HostError?)

  package let plan: DeviceSession.Plan
  /// The advertised name, where it was found by one.
  package let deviceName: String?
  package let adapter: any Adapter
  package let directory: String
  package let limits: RecordingLimits
  package let format: TableFormat

  /// - Parameters:
  ///   - plan: the device, and how to connect to it.
  ///   - name: its advertised name, where that is known.
  ///   - adapter: the way to the radio.
  ///   - directory: is made.
  ///   - limits: when to end.
  ///   - format: of the tables.
  package init(
    _ plan: DeviceSession.Plan, named name: String?, on adapter: any Adapter, into directory: String,
    _ limits: RecordingLimits, as format: TableFormat
  ) {
    self.plan = plan
    deviceName = name
    self.adapter = adapter
    self.directory = directory
    self.limits = limits
    self.format = format
  }

  var sensorRecording: SensorRecording {
    SensorRecording(plan, on: adapter, into: directory, limits, as: format)
  }

  var ringCapture: RingCapture {
    var capture = RingCapture(
      RingCapture.Target(address: plan.peer, name: deviceName), adapter: adapter, limits: limits,
      directory: directory)
    capture.connectTimeout = plan.connectTimeout
    capture.request = plan.request
    capture.patience = plan.patience
    capture.tableFormat = format
    return capture
  }
}

public import BLEHost
import BLELinux
public import BLEWire

/// A finished recording: its directory, counts, losses, and the reason for its end.
///
/// ```swift
/// let recording = try await Recording.run(.ring, on: radio, to: "walk", for: .seconds(60))
/// print(recording.received, recording.lost, recording.gaps.count)
/// ```
///
/// The capture is a directory with a table for each kind of sample (CSV, or NumPy arrays), the packet log
/// `packets.btsnoop` and `session.json`. `ringtap capture` and the sensor commands write the same files with
/// the same code. `ringtap analyse`, `convert` and `report` read them.
public struct Recording: Sendable {
  /// The capture's directory.
  public let directory: String
  /// The contents of `session.json`.
  public let report: SessionReport
  /// The error that ended the recording early, such as a lost link or a full disk; `nil` if the recording
  /// ended by duration, count or cancellation. The files contain everything received before the error.
  public let failure: HostError?

  /// Number of notifications received.
  public var received: Int { report.received }
  /// Received notifications that are missing from the files, by queue. `total` is 0 if no notification is
  /// missing.
  public var lost: SessionReport.Loss { report.lost }
  /// Periods without a link, in order. `lost` does not include measurements that the sensor did not send
  /// during a gap.
  public var gaps: [SessionGap] { report.gaps }

  /// Records a sensor: finds it, starts its stream, writes its samples, and stops the stream.
  ///
  /// The recording ends after `duration` or `count`, whichever comes first. Without both, it ends when the
  /// task is cancelled. In each case the files are complete.
  ///
  /// - Parameters:
  ///   - kind: the kind of sensor.
  ///   - radio: the radio.
  ///   - directory: the capture's directory, which must be missing or empty.
  ///   - duration: time since the start of the stream, including gaps.
  ///   - count: number of samples of a ring, or of values of another sensor. The packet log ends with the
  ///     last sample.
  ///   - address: the sensor's address, if known. Connecting by address needs no scan.
  ///   - name: the exact advertised name to find; `nil` for the first sensor of the kind.
  ///   - searchTime: timeout for finding the sensor.
  ///   - patience: maximum time to reconnect after a lost link; zero to disable reconnection.
  ///   - format: the tables' format.
  /// - Throws: errors before the start: `notFound`, `noAnswer`, `unsuitable` for a directory that is not
  ///   empty or a device of another kind, `system` if a file cannot be created. Later errors are stored in
  ///   `failure`.
  public static func run<Sample>(
    _ kind: SensorKind<Sample>, on radio: Radio, to directory: String, for duration: Duration? = nil,
    count: Int? = nil, at address: DeviceAddress? = nil, named name: String? = nil,
    within searchTime: Duration = Radio.searchTime, patience: Duration = .zero, as format: TableFormat = .csv
  ) async throws(HostError) -> Recording {
    guard Files.names(in: directory).allSatisfy({ $0 == "." || $0 == ".." }) else {
      throw .unsuitable("\(directory) already exists and is not empty; record into another directory")
    }
    await radio.scans.end()
    var (peer, advertisedName) = (address, name)
    if peer == nil {
      let found = try await radio.find(kind, named: name, within: searchTime)
      (peer, advertisedName) = (found.address, found.name)
    }
    var recording = SensorRecording(
      of: peer ?? .any, named: advertisedName, on: radio.adapter, into: directory,
      RecordingLimits(duration: duration, count: count))
    recording.plan.patience = patience
    recording.tableFormat = format
    let result = try await recording.run(kind)
    return Recording(directory: directory, report: result.report, failure: result.failure)
  }
}

/// Text of the losses: `0`, or `3 (2 kernel queue, 1 disk)`.
extension SessionReport.Loss: CustomStringConvertible {
  /// `0`, or the total and the losses of each queue.
  public var description: String {
    let parts = Place.allCases.filter { self[$0] > 0 }
    guard !parts.isEmpty else { return "0" }
    return "\(total) (" + parts.map { "\(self[$0]) \($0.name)" }.joined(separator: ", ") + ")"
  }
}

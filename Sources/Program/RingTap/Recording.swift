public import BLEHost
import BLELinux
public import BLEWire

/// A recording that has ended: where its capture is, what came, what was lost, and what ended it.
///
/// ```swift
/// let recording = try await Recording.run(.ring, on: radio, to: "walk", for: .seconds(60))
/// print(recording.received, recording.lost, recording.gaps.count)
/// ```
///
/// The capture is a directory with a table for each kind of sample (CSV, or NumPy arrays), the packet log `packets.btsnoop`
/// and `session.json`: the same that `ringtap capture` and the sensors' commands leave, made by the same code, and what
/// `ringtap analyse`, `convert` and `report` read.
public struct Recording: Sendable {
  /// The capture.
  public let directory: String
  /// Everything that `session.json` says.
  public let report: SessionReport
  /// What ended it before its time: a link that stayed lost, a full disk; `nil` where that was the duration, the count or a
  /// cancelled task. What came until then is in the files.
  public let failure: HostError?

  /// Notifications that arrived.
  public var received: Int { report.received }
  /// Those of them that are not in the files, by queue; `total` is 0 where all are.
  public var lost: SessionReport.Loss { report.lost }
  /// Times without a link, in order. What the sensor measured meanwhile never came, and is not in `lost`.
  public var gaps: [SessionGap] { report.gaps }

  /// Records a sensor: finds it, starts its stream, writes what comes, and stops the stream.
  ///
  /// Ends with `duration` or `count`, whichever is first; without both, when the task is cancelled. Then too the files are
  /// complete.
  ///
  /// - Parameters:
  ///   - kind: what is recorded.
  ///   - radio: the way to it.
  ///   - directory: is made; nothing may be in it.
  ///   - duration: counts from when the stream runs, gaps included.
  ///   - count: samples of a ring, values of a sensor; the packet log ends with the last of them.
  ///   - address: the sensor, where it is known; then nothing is scanned for.
  ///   - name: the exact advertised name to look for; `nil` for the first of the kind.
  ///   - searchTime: how long to look.
  ///   - patience: how long to go on without the sensor after a lost link; zero: a lost link is the end.
  ///   - format: of the tables.
  /// - Throws: what kept it from starting: `notFound`, `noAnswer`, `unsuitable` for a directory that is not empty or a device
  ///   that is no such sensor, `system` where a file cannot be made. Later `failure` says what went wrong.
  public static func run<Sample>(
    _ kind: SensorKind<Sample>, on radio: Radio, to directory: String, for duration: Duration? = nil,
    count: Int? = nil, at address: DeviceAddress? = nil, named name: String? = nil,
    within searchTime: Duration = Radio.searchTime, patience: Duration = .zero, as format: TableFormat = .csv
  ) async throws(HostError) -> Recording {
    guard Files.names(in: directory).allSatisfy({ $0 == "." || $0 == ".." }) else {
      throw .unsuitable("\(directory) is there already and not empty; record into another directory")
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

/// Only what was lost, by queue: `0`, or `3 (2 kernel queue, 1 disk)`.
extension SessionReport.Loss: CustomStringConvertible {
  /// `0`, or the sum and its parts.
  public var description: String {
    let parts = Place.allCases.filter { self[$0] > 0 }
    guard !parts.isEmpty else { return "0" }
    return "\(total) (" + parts.map { "\(self[$0]) \($0.name)" }.joined(separator: ", ") + ")"
  }
}

public import BLEHost
public import BLEWire
import SensorSessions

/// Simultaneous recordings of several sensors over one adapter, each with its own directory and report.
public struct RecordingGroup: Sendable {
  /// Result of one recording.
  public struct Outcome: Sendable {
    public var recording: SensorRecording
    public var result: Result<SensorRecording.Result, HostError>
  }

  private let members: [(kind: AnySensorKind, recording: SensorRecording)]

  /// - Parameter members: recordings over the same adapter, each with its own sensor and directory.
  public init(_ members: [(kind: AnySensorKind, recording: SensorRecording)]) { self.members = members }

  /// Returns the directory of one sensor, which is named after its address: `70-CB-0D-00-A1-B2`.
  public static func directory(of address: DeviceAddress, in directory: String) -> String {
    directory + "/" + address.fileName
  }

  /// Runs all recordings to their ends. If one fails, the others continue. Cancelling ends all as with
  /// Ctrl-C.
  ///
  /// - Returns: outcomes in the order of the members.
  public func run() async -> [Outcome] {
    await withTaskGroup(of: (Int, Outcome).self) { group in
      for (index, member) in members.enumerated() {
        group.addTask { (index, await Self.run(member.recording, of: member.kind)) }
      }
      var outcomes: [(Int, Outcome)] = []
      for await outcome in group { outcomes.append(outcome) }
      return outcomes.sorted { $0.0 < $1.0 }.map(\.1)
    }
  }

  private static func run(_ recording: SensorRecording, of kind: AnySensorKind) async -> Outcome {
    let result: Result<SensorRecording.Result, HostError>
    do throws(HostError) { result = .success(try await kind.record(recording)) } catch {
      result = .failure(error)
    }
    return Outcome(recording: recording, result: result)
  }
}

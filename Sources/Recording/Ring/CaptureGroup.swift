public import BLECore
public import BLEHost
import SensorSessions

/// Captures of several rings at once over one adapter, each with its own directory and report.
public struct CaptureGroup: Sendable {
  /// How one of them ended.
  public struct Outcome: Sendable {
    public var target: RingCapture.Target
    public var directory: String
    public var result: Result<RingCapture.Result, HostError>
  }

  private let captures: [RingCapture]

  /// - Parameter captures: all over the same adapter, no two of the same ring or directory.
  public init(_ captures: [RingCapture]) { self.captures = captures }

  /// The directory of one ring in that of the group: its address, such as `70-CB-0D-00-A1-B2`.
  public static func directory(of address: DeviceAddress, in directory: String) -> String {
    directory + "/" + address.fileName
  }

  /// Runs all to their ends; one that fails does not disturb the others. Cancelling ends all like Ctrl-C.
  ///
  /// - Returns: in the order of the captures.
  public func run() async -> [Outcome] {
    await withTaskGroup(of: (Int, Outcome).self) { group in
      for (index, capture) in captures.enumerated() {
        group.addTask { (index, await Self.run(capture)) }
      }
      var outcomes: [(Int, Outcome)] = []
      for await outcome in group { outcomes.append(outcome) }
      return outcomes.sorted { $0.0 < $1.0 }.map(\.1)
    }
  }

  private static func run(_ capture: RingCapture) async -> Outcome {
    let result: Result<RingCapture.Result, HostError>
    do throws(HostError) { result = .success(try await capture.run()) } catch {
      result = .failure(error)
    }
    return Outcome(target: capture.target, directory: capture.directory, result: result)
  }
}

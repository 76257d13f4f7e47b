import BLEEmulation
import BLELinux
import BLEWire
import CTestSystem

/// Simulates a host and its rings in virtual time, for a number of connection events, with random faults.
///
/// Everything runs on one event loop without I/O, and all randomness comes from the seed: runs with the same
/// seed are equal.
public struct Simulation: Sendable {
  /// Number of connection events of all links together, without those in which neither side had data.
  public var events: Int
  public var seed: UInt64

  public init(seed: UInt64, events: Int) {
    self.seed = seed
    self.events = events
  }

  /// A violated invariant, and when it was found.
  public struct Finding: Error, Sendable, CustomStringConvertible {
    public var seed: UInt64
    public var event: Int
    public var milliseconds: Int64
    public var what: String
    /// The last entries of the trace.
    public var trace: [String]

    public var description: String {
      "seed \(seed), event \(event), \(milliseconds) ms: \(what)\n" + trace.joined(separator: "\n")
    }
  }

  /// Counts of a run.
  public struct Report: Sendable {
    public var events = 0
    public var virtualSeconds = 0
    public var scenes = 0
    /// Number of scenes after which a session streamed again only after a reset of its controller.
    public var resets = 0
    public var links = 0
    /// Number of links that were still up after the host had closed, because the host did not know them.
    public var orphans = 0
    public var faults: [String: Int] = [:]
    public var requests: [String: Int] = [:]
    public var requestCount = 0
    /// Number of raw notifications according to the rings.
    public var sent = 0
    public var received = 0
    public var duplicated = 0
    /// Number of received samples that were dropped because a queue was full.
    public var dropped = 0
    public var lost: [String: Int] = [:]
    public var checksum: UInt64 = 0
    /// Allocated bytes after a tenth of the events, and at the end.
    public var memory = (early: 0, end: 0)

    public init() {}
  }

  /// Runs to the end, or to the first finding.
  ///
  /// - Parameter progress: called on the loop's thread at intervals with the number of events so far.
  public func run(_ progress: @escaping @Sendable (Int) -> Void = { _ in }) async throws -> Report {
    let start = ReceiveTime(nanoseconds: 1_700_000_000_000_000_000)
    let loop = try EventLoop(name: "simulation", clock: .virtual(from: start))
    defer { loop.stop() }
    return try await Task(executorPreference: loop) {
      let world = try SimulatedWorld(self, on: loop)
      defer { world.close() }
      return try await world.run(progress)
    }.value
  }

  /// Number of bytes that this process has allocated.
  static var allocated: Int { Int(test_allocated()) }
}

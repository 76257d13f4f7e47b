import BLEEmulation
import BLELinux
import BLEWire
import CTestSystem

/// A host and its rings by virtual time, for a number of connection events, while random things go wrong.
///
/// All of it is on one event loop, without I/O, and all that is random comes of the seed: the same seed is the same run.
public struct Simulation: Sendable {
  /// Connection events of all links together, those not counted in which nobody had anything to say.
  public var events: Int
  public var seed: UInt64

  public init(seed: UInt64, events: Int) {
    self.seed = seed
    self.events = events
  }

  /// What was found to be wrong, and when.
  public struct Finding: Error, Sendable, CustomStringConvertible {
    public var seed: UInt64
    public var event: Int
    public var milliseconds: Int64
    public var what: String
    /// The last of what was said.
    public var trace: [String]

    public var description: String {
      "seed \(seed), event \(event), \(milliseconds) ms: \(what)\n" + trace.joined(separator: "\n")
    }
  }

  /// What happened.
  public struct Report: Sendable {
    public var events = 0
    public var virtualSeconds = 0
    public var scenes = 0
    /// Scenes at whose end a session did not stream again until its controller was reset.
    public var resets = 0
    public var links = 0
    /// Links that the host knew nothing of when it had closed.
    public var orphans = 0
    public var faults: [String: Int] = [:]
    public var requests: [String: Int] = [:]
    public var requestCount = 0
    /// By the rings' own count.
    public var sent = 0
    public var received = 0
    public var duplicated = 0
    /// Of those received: samples that a full queue had no room for.
    public var dropped = 0
    public var lost: [String: Int] = [:]
    public var checksum: UInt64 = 0
    /// Octets of allocated memory after a tenth of the events, and at the end.
    public var memory = (early: 0, end: 0)

    public init() {}
  }

  /// Runs it to its end, or to the first finding.
  ///
  /// - Parameter progress: called on the loop's thread now and then with the events so far.
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

  /// Allocated by this process, in octets.
  static var allocated: Int { Int(test_allocated()) }
}

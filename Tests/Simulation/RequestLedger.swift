import BLEHost
import BLEStack
import BLEWire

/// Tracks each request from its start to its end. A request must end exactly once.
final class RequestLedger {
  enum Outcome: String, CaseIterable {
    case value, refused, malformed, timedOut, linkEnded, cancelled, otherError
  }

  private struct Pending {
    let what: String
    let since: MonotonicTime
    let link: SimulatedLink?
  }

  /// Maximum duration of a request: its own timeout and those of the few requests that may be queued before
  /// it.
  private static let limit = Duration.seconds(200)
  /// Maximum duration of a request after its link has ended: three commands to the controller, with a timeout
  /// of two seconds each.
  private static let endLimit = Duration.seconds(7)

  private(set) var begun = 0
  private(set) var outcomes: [Outcome: Int] = [:]
  private var pending: [Int: Pending] = [:]
  private(set) var fault: String?

  var pendingCount: Int { pending.count }
  var pendingTexts: [String] { pending.keys.sorted().compactMap { pending[$0]?.what } }
  var ended: Int { outcomes.values.reduce(0, +) }

  func begin(_ what: String, on link: SimulatedLink?, at time: MonotonicTime) -> Int {
    begun += 1
    pending[begun] = Pending(what: what, since: time, link: link)
    return begun
  }

  func end(_ number: Int, _ outcome: Outcome) {
    if pending.removeValue(forKey: number) == nil { fault = "request \(number) ended twice" }
    outcomes[outcome, default: 0] += 1
  }

  /// - Returns: Description of a request that should have ended.
  func overdue(now: MonotonicTime) -> String? {
    for number in pending.keys.sorted() {
      guard let request = pending[number] else { continue }
      let age = request.since.duration(to: now)
      if age > Self.limit { return "\(request.what) has waited for \(age)" }
      if let endedAt = request.link?.endedAt, endedAt.duration(to: now) > Self.endLimit {
        return "\(request.what) still waits \(endedAt.duration(to: now)) after the end of its link"
      }
    }
    return nil
  }
}

extension RequestLedger.Outcome {
  init(_ error: any Error) {
    let gatt: GATTError? =
      switch error {
      case let error as GATTError: error
      case HostError.gatt(let error): error
      default: nil
      }
    switch gatt {
    case .refused: self = .refused
    case .malformed: self = .malformed
    case .timedOut: self = .timedOut
    case .closed: self = .linkEnded
    case .cancelled: self = .cancelled
    default: self = error is CancellationError ? .cancelled : .otherError
    }
  }
}

/// One connection, from its start.
final class SimulatedLink: @unchecked Sendable {
  // Needs no lock: used on the event loop's thread only.

  let handle: ConnectionHandle
  var endedAt: MonotonicTime?

  init(_ handle: ConnectionHandle) { self.handle = handle }
}

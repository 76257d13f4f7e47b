import BLELinux
import BLEStack
import BLEWire

/// A pending request to connect to one device.
final class LinkWish {
  let peer: DeviceAddress
  let request: LinkRequest
  let tap: PacketTap?
  let seconds: Int
  /// Time limit; set to now when the caller cancels.
  var deadline: MonotonicTime
  /// Whether an attempt was directed at this device only.
  var wasNamed = false
  /// Timing with which the link was created. Another request may have set the timing if both shared the
  /// attempt.
  var timing: LinkParameterRange?
  /// Result for the caller. A one-shot, because the link may come up before the caller waits.
  let outcome = OneShot<Result<Connection, HostError>>()

  init(
    _ peer: DeviceAddress, _ request: LinkRequest, _ tap: PacketTap?, _ timeout: Duration,
    from now: MonotonicTime
  ) {
    (self.peer, self.request, self.tap) = (peer, request, tap)
    seconds = Int((timeout / .seconds(1)).rounded(.up))
    deadline = now.advanced(by: timeout)
  }

  var noAnswer: HostError { .noAnswer(peer, seconds: seconds) }
}

/// A connection attempt of the controller: to a given device, or to the first device on the accept list that
/// advertises. A controller makes one attempt at a time.
final class LinkAttempt {
  /// Maximum time for a controller to confirm that it has cancelled an attempt.
  static let cancelPatience = Duration.seconds(2)
  /// Time slice of an attempt if some devices did not fit on the accept list.
  static let slice = Duration.seconds(2)
  /// Minimum duration of an attempt when a connection request for another device is pending.
  static let grace = Duration.milliseconds(500)

  /// Connection requests that this attempt can complete.
  var wishes: [LinkWish]
  /// Whether the attempt uses the accept list because it serves several devices.
  let isListed: Bool
  /// Whether connection requests are pending that this attempt does not serve.
  var isPartial: Bool
  let timing: LinkParameterRange
  /// Time at which the controller accepted the command. The attempt cannot be cancelled earlier.
  var createdAt: MonotonicTime?
  /// A link that came up before the controller replied to the command.
  var early: (wish: LinkWish, link: Connection)?
  /// End of the time slice. After the cancel command, the time limit for the controller's confirmation.
  var deadline: MonotonicTime?
  var isCancelling = false
  /// The cancel command; `nil` until it is sent.
  var cancel: CommandID?
  /// Error with which the controller refused the cancel command.
  var refusal: HostError?
  let ended = OneShot<Void>()

  init(_ wishes: [LinkWish], isPartial: Bool) {
    (self.wishes, self.isPartial) = (wishes, isPartial)
    isListed = wishes.count > 1
    timing = wishes.first?.request.initialTiming ?? .default
  }

  func isFor(_ wish: LinkWish) -> Bool { wishes.contains { $0 === wish } }
}

/// All pending connection requests. An absent device does not delay other requests.
struct LinkWishes {
  /// Pending requests in order, including the requests of the current attempt.
  var waiting: [LinkWish] = []
  var attempt: LinkAttempt?
  /// Whether a task is making attempts.
  var isAtWork = false
  /// Whether the controller confirms a cancellation but continues the attempt, like the controller of
  /// google/bumble 0.0.236.
  var isStubborn = false

  /// Returns the next attempt. Each device first gets a short attempt of its own, because most devices are in
  /// range, and because google/bumble's controller ignores the accept list.
  func nextAttempt() -> LinkAttempt {
    let named = waiting.count == 1 ? waiting.first : waiting.first { !$0.wasNamed }
    named?.wasNamed = true
    return LinkAttempt(named.map { [$0] } ?? waiting, isPartial: named != nil && waiting.count > 1)
  }

  private mutating func remove(_ wish: LinkWish) { waiting.removeAll { $0 === wish } }

  mutating func fulfil(_ wish: LinkWish, _ result: Result<Connection, HostError>) {
    remove(wish)
    wish.outcome.set(result)
  }

  /// Time at which to cancel the attempt. During cancellation, the time limit for the controller's
  /// confirmation. `nil` until the controller has accepted the command: the attempt cannot be cancelled
  /// earlier.
  var deadline: MonotonicTime? {
    guard let attempt, attempt.createdAt != nil else { return nil }
    if attempt.isCancelling { return attempt.deadline }
    return waiting.reduce(attempt.deadline) { .earliest($0, $1.deadline) }
  }

  /// Removes and returns the connection request that a new link completes. A directed attempt has exactly one
  /// request, and any peer address matches. With the accept list the address must match: the controller may
  /// connect to a device whose request was cancelled, even if only one request is left.
  mutating func take(_ peer: DeviceAddress) -> LinkWish? {
    guard let attempt,
      let place = attempt.isListed
        ? attempt.wishes.firstIndex(where: { $0.peer == peer }) : attempt.wishes.indices.first
    else { return nil }
    let wish = attempt.wishes.remove(at: place)
    remove(wish)
    wish.timing = attempt.timing
    return wish
  }

  /// Moves the requests of an attempt behind the requests that it did not serve.
  mutating func rotate(_ attempt: LinkAttempt) {
    let had = waiting.filter(attempt.isFor)
    waiting.removeAll(where: attempt.isFor)
    waiting += had
  }
}

/// An ATT PDU that arrived together with the connection event of its link.
struct EarlyPDU {
  let handle: ConnectionHandle
  let octets: [UInt8]
  let time: ReceiveTime
  let stamp: PacketPort.Stamp
}

import BLELinux
import BLEStack
import BLEWire

/// A pending connect to one device.
final class LinkWish {
  let peer: DeviceAddress
  let request: LinkRequest
  let tap: PacketTap?
  let seconds: Int
  /// Set to now when the caller cancels.
  var deadline: MonotonicTime
  /// Whether an attempt was directed at this device alone.
  var wasNamed = false
  /// Timing with which the link was created. Another pending connect of the same attempt may have requested
  /// it.
  var timing: LinkParameterRange?
  /// A one-shot, because the link may come up before the caller waits for it.
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

/// One connection attempt of the controller, which makes one at a time: to a given device, or to whichever
/// device of the accept list advertises first.
final class LinkAttempt {
  /// How long a controller may take to confirm that it cancelled an attempt.
  static let cancelPatience = Duration.seconds(2)
  /// Time slice of the devices on the accept list if the list does not hold all.
  static let slice = Duration.seconds(2)
  /// How long an attempt runs undisturbed when a connect to another device is pending.
  static let grace = Duration.milliseconds(500)

  /// The connects that this attempt can complete.
  var wishes: [LinkWish]
  /// Whether the attempt uses the accept list, for several devices.
  let isListed: Bool
  /// Whether connects that this attempt does not include are pending.
  var isPartial: Bool
  let timing: LinkParameterRange
  /// When the controller accepted the command. The attempt can be cancelled from then on.
  var createdAt: MonotonicTime?
  /// A link that came up before the controller answered the command.
  var early: (wish: LinkWish, link: Connection)?
  /// End of the time slice; while cancelling, the limit for the controller's confirmation.
  var deadline: MonotonicTime?
  var isCancelling = false
  /// The cancel command that was sent, and the controller's error if it was refused.
  var cancel: CommandID?
  var refusal: HostError?
  let ended = OneShot<Void>()

  init(_ wishes: [LinkWish], isPartial: Bool) {
    (self.wishes, self.isPartial) = (wishes, isPartial)
    isListed = wishes.count > 1
    timing = wishes.first?.request.initialTiming ?? .default
  }

  func isFor(_ wish: LinkWish) -> Bool { wishes.contains { $0 === wish } }
}

/// All pending connects. A connect to an absent device does not delay the others.
struct LinkWishes {
  /// In order, including the connects of the current attempt.
  var waiting: [LinkWish] = []
  var attempt: LinkAttempt?
  /// Whether a task is making attempts.
  var isAtWork = false
  /// Whether the controller confirms a cancel but continues the attempt, as google/bumble's does (0.0.236).
  var isStubborn = false

  /// Each device first gets a short attempt of its own: most devices are in range, and google/bumble's
  /// controller ignores the accept list.
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

  /// Deadline of the attempt or, during cancellation, of the controller's confirmation. `nil` until
  /// the controller has accepted the command: the attempt cannot be cancelled earlier.
  var deadline: MonotonicTime? {
    guard let attempt, attempt.createdAt != nil else { return nil }
    if attempt.isCancelling { return attempt.deadline }
    return waiting.reduce(attempt.deadline) { .earliest($0, $1.deadline) }
  }

  /// Removes and returns the connect that a link completes. A directed attempt has exactly one, whatever the
  /// peer's address is now. With the accept list the peer's address must match: the controller may connect to
  /// a device whose connect was cancelled, even if only one connect is left.
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

  /// Moves the connects of an attempt behind those that it did not include.
  mutating func rotate(_ attempt: LinkAttempt) {
    let had = waiting.filter(attempt.isFor)
    waiting.removeAll(where: attempt.isFor)
    waiting += had
  }
}

/// An ATT PDU that arrived together with the event that announces its link.
struct EarlyPDU {
  let handle: ConnectionHandle
  let octets: [UInt8]
  let time: ReceiveTime
  let stamp: PacketPort.Stamp
}

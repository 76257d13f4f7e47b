import BLELinux
import BLEStack
import BLEWire

/// A device that somebody wants a link with.
final class LinkWish {
  let peer: DeviceAddress
  let request: LinkRequest
  let tap: PacketTap?
  let seconds: Int
  /// Now, where it is wanted no more.
  var deadline: MonotonicTime
  /// An attempt was for it alone.
  var wasNamed = false
  /// What the link was made with, which may have been another's wish.
  var timing: LinkParameterRange?
  /// The link may be there before anybody waits for it.
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

/// What a controller is asked for, one at a time: a link with a device that is named, or with whichever of several
/// advertises first.
final class LinkAttempt {
  /// How long a controller may take to confirm that it gave an attempt up.
  static let cancelPatience = Duration.seconds(2)
  /// How long those that the controller's list holds have it, where it does not hold all.
  static let slice = Duration.seconds(2)
  /// How long an attempt is left alone where another device is wanted, too.
  static let grace = Duration.milliseconds(500)

  /// Whom it is for.
  var wishes: [LinkWish]
  /// By the accept list, for several.
  let isListed: Bool
  /// Others wait, for whom it is not.
  var isPartial: Bool
  let timing: LinkParameterRange
  /// When the controller took the command: it can be told to give up since.
  var createdAt: MonotonicTime?
  /// A link that is up while the controller has not answered the command.
  var early: (wish: LinkWish, link: Connection)?
  /// When others are to have the controller's list; then when the controller has had its time to give up.
  var deadline: MonotonicTime?
  var isCancelling = false
  /// The cancel that was sent, and what the controller said if it refused.
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

/// All who want a link. While some of them wait for a device that is not there, the others get theirs.
struct LinkWishes {
  /// In order; those of the attempt that is under way are among them.
  var waiting: [LinkWish] = []
  var attempt: LinkAttempt?
  /// A task makes attempts for them.
  var isAtWork = false
  /// The controller confirms that it gives an attempt up, and goes on with it, as google/bumble's does (0.0.236).
  var isStubborn = false

  /// Each device is named for a moment first: most are there, and google/bumble's controller looks into no list.
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

  /// When an attempt is to be given up, then when the controller has had its time for that. Before it can be given up, there
  /// is none: what becomes of the attempt is not known.
  var deadline: MonotonicTime? {
    guard let attempt, attempt.createdAt != nil else { return nil }
    if attempt.isCancelling { return attempt.deadline }
    return waiting.reduce(attempt.deadline) { .earliest($0, $1.deadline) }
  }

  /// Takes the wish out that a link fulfils. Where one device was named, it is that one, whatever its address is now. Of a list
  /// the controller may connect to one that is not wanted any more, even when a single wish is left.
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

  /// Puts those who had the controller's list behind those who did not.
  mutating func rotate(_ attempt: LinkAttempt) {
    let had = waiting.filter(attempt.isFor)
    waiting.removeAll(where: attempt.isFor)
    waiting += had
  }
}

/// An ATT PDU that came with the event that announces its link.
struct EarlyPDU {
  let handle: ConnectionHandle
  let octets: [UInt8]
  let time: ReceiveTime
  let stamp: PacketPort.Stamp
}

import BLEHost
import BLEStack
import BLEWire

/// Requests that a session no longer sends to its device, because they ended a link.
struct LinkAvoidance: Sendable {
  /// After this number of them, only requests that the stream needs are sent.
  static let limit = 3

  /// ATT requests.
  private(set) var requests: Set<[UInt8]> = []
  private var parts: Set<LinkRequest.Part> = []
  private(set) var remarks: [LinkRemark] = []
  /// Learned, and not told to those who remember it.
  private var untold: [LinkSuspect] = []
  private var last: LinkSuspect?
  private var hasNews = false

  var asksNothing: Bool { requests.count + parts.count >= Self.limit }
  /// The device ends its link where another interval is asked for.
  var keepsTiming: Bool { parts.contains(.timing) }

  /// Takes what may have made a device end its link: at once if the device ended it instead of responding, else the second time
  /// in a row.
  mutating func learn(_ found: (cause: LinkSuspect, isUnanswered: Bool)?, _ end: BearerEnd?) {
    defer { last = found?.cause }
    guard let (suspect, isUnanswered) = found else { return }
    let isWish = end == .linkLost(.closedByPeer)
    guard isUnanswered ? isWish || last == suspect : isWish && last == suspect,
      !remarks.contains(.notAskedAgain(suspect))
    else { return }
    add(suspect)
    remarks.append(.notAskedAgain(suspect))
    untold.append(suspect)
    hasNews = true
  }

  /// Takes what is remembered of earlier programs' links.
  mutating func recall(_ suspects: [LinkSuspect]) {
    for suspect in suspects { add(suspect) }
  }

  private mutating func add(_ suspect: LinkSuspect) {
    switch suspect {
    case .request(let pdu): requests.insert(pdu)
    case .parameters(let part): parts.insert(part)
    }
  }

  /// What was learned since the last call and is worth to be remembered: not a subscription, without which a stream begins late.
  mutating func takeUntold() -> [LinkSuspect] {
    defer { untold = [] }
    return untold.filter { !$0.isSubscription }
  }

  /// Forgets what was learned and not told: the device was away, so its own wish to end the link may have been its user's.
  mutating func dropUntold() { untold = [] }

  /// Whether something was learned since the last call.
  mutating func takeNews() -> Bool {
    defer { hasNews = false }
    return hasNews
  }

  /// Removes the parameters that ended a link from a request.
  func change(_ request: inout LinkRequest) {
    if parts.contains(.phy) { request.phy = nil }
    if parts.contains(.dataLength) { request.dataLength = nil }
    guard keepsTiming else { return }
    // The link is created with its final timing.
    (request.startsFast, request.keepsTiming) = (false, true)
  }
}

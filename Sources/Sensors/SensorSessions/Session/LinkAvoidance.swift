import BLEHost
import BLEStack
import BLEWire

/// Requests that a session no longer sends to its device, because they ended a link.
struct LinkAvoidance: Sendable {
  /// Number of avoided requests and parameters after which only requests that the stream needs are sent.
  static let limit = 3

  /// ATT requests to avoid.
  private(set) var requests: Set<[UInt8]> = []
  private var parts: Set<LinkRequest.Part> = []
  private(set) var remarks: [LinkRemark] = []
  /// Learned causes that were not yet reported by `takeUntold`.
  private var untold: [LinkSuspect] = []
  private var last: LinkSuspect?
  private var hasNews = false

  var asksNothing: Bool { requests.count + parts.count >= Self.limit }
  /// Whether the device ends its link when another interval is requested.
  var keepsTiming: Bool { parts.contains(.timing) }

  /// Learns the suspected reason why a device ended its link: immediately if the device ended the link
  /// instead of responding, otherwise if the same reason is suspected twice in a row.
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

  /// Adds the causes that an earlier program remembered.
  mutating func recall(_ suspects: [LinkSuspect]) {
    for suspect in suspects { add(suspect) }
  }

  private mutating func add(_ suspect: LinkSuspect) {
    switch suspect {
    case .request(let pdu): requests.insert(pdu)
    case .parameters(let part): parts.insert(part)
    }
  }

  /// Returns the causes learned since the last call that should be remembered. Subscriptions are omitted,
  /// because a stream starts late without one.
  mutating func takeUntold() -> [LinkSuspect] {
    defer { untold = [] }
    return untold.filter { !$0.isSubscription }
  }

  /// Forgets learned causes that were not reported. The device was away, so its user may have ended the link.
  mutating func dropUntold() { untold = [] }

  /// Whether a cause was learned since the last call.
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

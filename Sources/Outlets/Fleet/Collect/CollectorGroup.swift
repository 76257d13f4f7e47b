import BLELinux
package import BLEWire

/// Assigns publishers to the collectors of a group, without network I/O.
///
/// Each publisher has one collector at a time, which collects all tables of the publisher. Collectors use
/// retained messages to announce themselves and to claim publishers. A shared subscription of MQTT 5 is
/// unsuitable, because it would distribute the messages of one table among the group. Each collector
/// subscribes only to the topics of its own publishers.
///
/// | topic | payload |
/// |---|---|
/// | `PREFIX/.group/GROUP/members/COLLECTOR` | `online`; empty, as the last will, when it disconnects |
/// | `PREFIX/.group/GROUP/claims/PUBLISHER` | the collector's name; empty once the publisher has ended |
///
/// The topics of publishers never match these topics, because the names of publishers do not begin with a
/// dot.
///
/// A publisher that no connected collector has claimed is assigned by rendezvous hashing: to the collector
/// whose name has the highest hash together with the publisher's name (Thaler and Ravishankar, Using
/// Name-Based Mappings to Increase Hit Rates, IEEE/ACM Trans. Netw. 6(1), 1998). All collectors compute the
/// same result without communication. Two collectors may still claim the same publisher if neither has
/// received the other's announcement. The claim that the broker receives last wins.
package struct CollectorGroup: Sendable {
  static let memberLimit = Limit(
    256, "collectors of a group", by: .broker, whenFull: "further ones have no publishers",
    counted: "nowhere")
  static let publisherLimit = Limit(
    65_536, "publishers known to a collector of a group", by: .broker,
    whenFull: "further ones are not collected", counted: "nowhere: their rows wait at the publishers")
  /// Time after the start to wait for the broker's retained messages.
  static let settlingPeriod = Duration.seconds(2)
  /// Time to wait after a lost connection, longer than the pause between connection attempts, because the
  /// other collectors may be disconnected too.
  static let resettlingPeriod = Duration.seconds(12)

  /// Actions for the caller to perform.
  package struct Actions: Sendable, Equatable {
    /// Messages to publish as retained.
    package var messages: [Message] = []
    package var subscribe: [String] = []
    package var unsubscribe: [String] = []
    /// Sessions that this collector has taken over, by publisher.
    package var taken: [String: String] = [:]
  }

  package struct Message: Sendable, Hashable {
    package var topic: String
    package var octets: [UInt8]
  }

  private struct Publisher: Sendable {
    var state: PublisherStatus.State
    var session: String
  }

  private let prefix: String
  private let root: String
  private let me: String
  private var members: Set<String> = []
  private var claims: [String: String] = [:]
  private var publishers: [String: Publisher] = [:]
  package private(set) var owned: Set<String> = []
  /// Publishers that this collector had when the connection was lost.
  private var remembered: Set<String> = []
  private var settledAt: MonotonicTime?
  private var hasBeenConnected = false
  private var isChanged = false

  package init(_ group: String, member: String, below prefix: String) {
    (self.prefix, me) = (prefix, member)
    root = "\(prefix)/.group/\(group)"
  }

  /// The last will: the message that the broker publishes if the connection is lost.
  package var will: Message { Message(topic: "\(root)/members/\(me)", octets: []) }

  private func topics(of publisher: String) -> String { "\(prefix)/\(publisher)/+/+" }

  private func claim(_ publisher: String, by name: String) -> Message {
    Message(topic: "\(root)/claims/\(publisher)", octets: Array(name.utf8))
  }

  // MARK: Input

  /// Resets the state for a new connection. The connection has no subscriptions yet.
  package mutating func connected(_ now: MonotonicTime) -> Actions {
    if hasBeenConnected { remembered.formUnion(owned) }
    settledAt = now.advanced(by: hasBeenConnected ? Self.resettlingPeriod : Self.settlingPeriod)
    (members, claims, publishers, owned) = ([me], [:], [:], [])
    (hasBeenConnected, isChanged) = (true, true)
    var actions = Actions()
    actions.messages = [Message(topic: "\(root)/members/\(me)", octets: Array("online".utf8))]
    actions.subscribe = ["\(root)/+/+", "\(prefix)/+/status"]
    return actions
  }

  /// Handles a message if it belongs to the group.
  ///
  /// - Returns: whether the message belongs to the group.
  package mutating func take(_ topic: String, _ payload: Span<UInt8>) -> Bool {
    guard topic.hasPrefix(root + "/") else { return false }
    let levels = topic.dropFirst(root.count + 1).split(separator: "/").map(String.init)
    guard levels.count == 2, FleetName.isValid(levels[1]) else { return true }
    var octets: [UInt8] = []
    for index in 0..<min(payload.count, FleetName.byteCountLimit + 1) { octets.append(payload[index]) }
    let text = String(decoding: octets, as: UTF8.self)
    switch levels[0] {
    case "members":
      if octets.isEmpty {
        // The will is from an earlier connection of this collector, which is online now.
        if levels[1] != me { members.remove(levels[1]) }
      } else if members.count < Self.memberLimit.count {
        members.insert(levels[1])
      }
    case "claims":
      if octets.isEmpty {
        claims[levels[1]] = nil
      } else if FleetName.isValid(text), claims.count < Self.publisherLimit.count {
        claims[levels[1]] = text
      }
    default: return true
    }
    isChanged = true
    return true
  }

  /// Handles a publisher's status message.
  package mutating func take(_ publisher: String, status payload: Span<UInt8>) {
    guard let status = try? PublisherStatus(parsing: payload) else {
      // The broker has removed the retained status.
      if payload.isEmpty { publishers[publisher] = nil }
      isChanged = true
      return
    }
    guard publishers[publisher] != nil || publishers.count < Self.publisherLimit.count else { return }
    let known = publishers[publisher]
    guard known?.state != status.state || known?.session != status.session else { return }
    publishers[publisher] = Publisher(state: status.state, session: status.session)
    isChanged = true
  }

  // MARK: Decisions

  /// Returns the actions that result from the messages received so far. Publishers without a claim are
  /// assigned only after the settling period.
  package mutating func decide(_ now: MonotonicTime) -> Actions {
    guard isChanged, let settledAt else { return Actions() }
    var actions = Actions()
    // If this collector had a publisher before, and no other collector has claimed it, there is no settling
    // period.
    let isSettled = now >= settledAt
    for (name, publisher) in publishers.sorted(by: { $0.key < $1.key }) {
      if publisher.state == .ended {
        if owned.contains(name) { release(name, &actions) }
        continue
      }
      let claimant = claims[name].flatMap { members.contains($0) ? $0 : nil }
      let mine = remembered.contains(name) && claims[name] == nil ? me : nil
      guard let owner = claimant ?? mine ?? (isSettled ? chosen(for: name) : nil) else { continue }
      if owner == me, !owned.contains(name) {
        owned.insert(name)
        if claims[name] != me { actions.messages.append(claim(name, by: me)) }
        claims[name] = me
        actions.subscribe.append(topics(of: name))
        actions.taken[name] = publisher.session
      } else if owner != me, owned.contains(name) {
        owned.remove(name)
        actions.unsubscribe.append(topics(of: name))
      }
    }
    if isSettled {
      remembered = []
      isChanged = false
    }
    return actions
  }

  private mutating func release(_ publisher: String, _ actions: inout Actions) {
    owned.remove(publisher)
    claims[publisher] = nil
    actions.messages.append(claim(publisher, by: ""))
    actions.unsubscribe.append(topics(of: publisher))
  }

  private func chosen(for publisher: String) -> String? {
    members.max { first, second in
      (Self.number(first, publisher), first) < (Self.number(second, publisher), second)
    }
  }

  /// Returns a hash: FNV-1a, then the last step of SplitMix64, because the last bytes hardly affect the high
  /// bits of FNV.
  private static func number(_ member: String, _ publisher: String) -> UInt64 {
    var hash: UInt64 = 0xCBF2_9CE4_8422_2325
    for octet in Array(member.utf8) + [0] + Array(publisher.utf8) {
      hash = (hash ^ UInt64(octet)) &* 0x100_0000_01B3
    }
    hash = (hash ^ hash >> 30) &* 0xBF58_476D_1CE4_E5B9
    hash = (hash ^ hash >> 27) &* 0x94D0_49BB_1331_11EB
    return hash ^ hash >> 31
  }
}

import BLESensors
import BLEWire
import SensorSessions

/// The state of one device for Home Assistant, and the messages that the broker has. A board has no
/// connection and no clock.
///
/// All messages are retained, so later subscribers receive them. A topic has at most one message in flight,
/// and at most one per second. Further changes are merged into the next message, so memory is bounded for any
/// sensor rate and broker speed.
struct HomeBoard: Sendable {
  /// A message to publish.
  struct Outgoing: Hashable, Sendable {
    var topic: String
    var octets: [UInt8]
    fileprivate var slot: Int
  }

  /// A message that the broker rejected.
  struct Refusal: Hashable, Sendable {
    var topic: String
    var reason: Int
  }

  /// Message types, in the order in which Home Assistant needs them: the entity, its availability, its value.
  private enum Part: Int, Sendable { case discovery, availability, state }

  /// State of one topic: the latest message, and the message that was sent.
  private struct Slot: Sendable {
    let part: Part
    let topic: String
    var wanted: [UInt8]
    /// The last payload that was sent.
    var sent: [UInt8]?
    var sentAt: MonotonicTime?
    /// The number of the message while the broker's acknowledgement is pending.
    var message: Int?

    init(_ part: Part, _ topic: String, _ wanted: [UInt8]) {
      (self.part, self.topic, self.wanted) = (part, topic, wanted)
    }

    func isDue(_ now: MonotonicTime, _ pause: Duration) -> Bool {
      guard message == nil, sent != wanted else { return false }
      return sentAt.map { $0.advanced(by: pause) <= now } ?? true
    }
  }

  private struct Entity: Sendable {
    var discovery: Int
    var state: Int
    /// Time at which the value expires.
    var end: MonotonicTime?
  }

  private static let (online, offline) = (Array("online".utf8), Array("offline".utf8))

  private(set) var device: HomeDevice
  private var slots: [Slot]
  private var entities: [HomeEntity: Entity] = [:]
  /// Minimum interval between two messages of one topic.
  private var pause = Duration.seconds(1)
  /// The first message that the broker rejected on this connection.
  private(set) var refusal: Refusal?

  init(_ device: HomeDevice) {
    self.device = device
    slots = [Slot(.availability, device.availabilityTopic, Self.offline)]
  }

  /// The last will: the message that the broker publishes if the connection is lost.
  var will: (topic: String, octets: [UInt8]) { (device.availabilityTopic, Self.offline) }

  // MARK: The device

  /// Sets the value of an entity.
  ///
  /// - Parameter text: the value in Home Assistant's format; `nil` if the value is currently unknown.
  mutating func set(_ entity: HomeEntity, _ text: String?, _ now: MonotonicTime) {
    if entities[entity] == nil {
      // The first value creates the entity.
      guard text != nil else { return }
      entities[entity] = Entity(discovery: slots.count, state: slots.count + 1)
      slots.append(Slot(.discovery, device.topic(of: entity, "config"), device.discovery(of: entity)))
      slots.append(Slot(.state, device.topic(of: entity, "state"), []))
    }
    guard let place = entities[entity]?.state else { return }
    slots[place].wanted = Array((text ?? entity.unknown).utf8)
    entities[entity]?.end = text == nil ? nil : entity.holds.map { now.advanced(by: $0) }
  }

  mutating func setLink(isUp: Bool, _ now: MonotonicTime) {
    slots[0].wanted = isUp ? Self.online : Self.offline
    guard !isUp else { return }
    for entity in entities.keys where !entity.outlivesLink { set(entity, nil, now) }
  }

  mutating func note(_ facts: SensorFacts, _ now: MonotonicTime) {
    // Facts from the previous link remain valid until the new link reports facts.
    if !facts.texts.isEmpty { device.facts = facts }
    if let battery = facts.battery { set(.battery, "\(battery.percent)", now) }
    for (entity, places) in entities { slots[places.discovery].wanted = device.discovery(of: entity) }
  }

  /// Marks the end of all changes. From then on, pending messages are sent without an interval.
  mutating func end() { pause = .zero }

  // MARK: The broker

  /// Resets the state for a new connection, because the broker may have lost the earlier messages.
  mutating func connected() {
    for place in slots.indices { (slots[place].message, slots[place].sent) = (nil, nil) }
    refusal = nil
  }

  /// Marks all messages to be sent again, because Home Assistant has restarted.
  mutating func repeatAll() {
    for place in slots.indices { slots[place].sent = nil }
  }

  /// Returns the next message that is due. Call this until it returns `nil`.
  mutating func next(_ now: MonotonicTime) -> Outgoing? {
    for (entity, places) in entities {
      if let end = places.end, end <= now { set(entity, nil, now) }
    }
    // A device without values is not reported as offline.
    if entities.isEmpty, slots[0].wanted == Self.offline, slots[0].sent == nil { return nil }
    let due = slots.indices.filter { slots[$0].isDue(now, pause) }
    guard let place = due.min(by: { slots[$0].part.rawValue < slots[$1].part.rawValue }) else { return nil }
    return Outgoing(topic: slots[place].topic, octets: slots[place].wanted, slot: place)
  }

  mutating func left(_ message: Int, _ outgoing: Outgoing, _ now: MonotonicTime) {
    slots[outgoing.slot].message = message
    slots[outgoing.slot].sent = outgoing.octets
    slots[outgoing.slot].sentAt = now
  }

  mutating func acknowledged(_ message: Int, reason: Int) {
    guard let place = slots.firstIndex(where: { $0.message == message }) else { return }
    slots[place].message = nil
    // A rejected message is sent again only when its content changes.
    if reason >= 0x80 { refusal = refusal ?? Refusal(topic: slots[place].topic, reason: reason) }
  }

  /// Whether the broker has acknowledged the current state.
  var isSettled: Bool {
    slots.allSatisfy {
      $0.message == nil && ($0.sent ?? (entities.isEmpty ? Self.offline : nil)) == $0.wanted
    }
  }

  /// Time at which the oldest unacknowledged message was sent.
  var waitingSince: MonotonicTime? { slots.compactMap { $0.message == nil ? nil : $0.sentAt }.min() }
}

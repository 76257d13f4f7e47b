import BLESensors
import BLEWire
import SensorSessions

/// What Home Assistant is to know of one device, and what of it a broker has: without a connection, and it gets the time.
///
/// All is retained, so whoever comes later has it. A topic has one message under way at most, and one a second: what changes
/// meanwhile goes out as it is then. So neither a fast sensor nor a slow broker makes anything grow.
struct HomeBoard: Sendable {
  /// A message for the broker.
  struct Outgoing: Hashable, Sendable {
    var topic: String
    var octets: [UInt8]
    fileprivate var slot: Int
  }

  /// What the broker refuses.
  struct Refusal: Hashable, Sendable {
    var topic: String
    var reason: Int
  }

  /// Order is what Home Assistant needs: an entity, then whether it is there, then its value.
  private enum Part: Int, Sendable { case discovery, availability, state }

  /// What stands at one topic.
  private struct Slot: Sendable {
    let part: Part
    let topic: String
    var wanted: [UInt8]
    /// What the broker was sent.
    var sent: [UInt8]?
    var sentAt: MonotonicTime?
    /// Its number, until the broker answers.
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
    /// When its value is no longer one.
    var end: MonotonicTime?
  }

  private static let (online, offline) = (Array("online".utf8), Array("offline".utf8))

  private(set) var device: HomeDevice
  private var slots: [Slot]
  private var entities: [HomeEntity: Entity] = [:]
  /// Between two messages of one topic.
  private var pause = Duration.seconds(1)
  /// The first publication that the broker refused, on this connection.
  private(set) var refusal: Refusal?

  init(_ device: HomeDevice) {
    self.device = device
    slots = [Slot(.availability, device.availabilityTopic, Self.offline)]
  }

  /// What the broker publishes where the connection breaks off.
  var will: (topic: String, octets: [UInt8]) { (device.availabilityTopic, Self.offline) }

  // MARK: The device

  /// - Parameter text: as Home Assistant has it; `nil`: it is not known now.
  mutating func set(_ entity: HomeEntity, _ text: String?, _ now: MonotonicTime) {
    if entities[entity] == nil {
      // An entity that never had a value is none.
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
    // What the link before told stands until this one tells.
    if !facts.texts.isEmpty { device.facts = facts }
    if let battery = facts.battery { set(.battery, "\(battery.percent)", now) }
    for (entity, places) in entities { slots[places.discovery].wanted = device.discovery(of: entity) }
  }

  /// Nothing more changes: what is not told is told at once.
  mutating func end() { pause = .zero }

  // MARK: The broker

  /// A connection is there: nothing is under way, and the broker may have forgotten all.
  mutating func connected() {
    for place in slots.indices { (slots[place].message, slots[place].sent) = (nil, nil) }
    refusal = nil
  }

  /// Home Assistant has started: it gets all again.
  mutating func repeatAll() {
    for place in slots.indices { slots[place].sent = nil }
  }

  /// The next message; ask until there is none.
  mutating func next(_ now: MonotonicTime) -> Outgoing? {
    for (entity, places) in entities {
      if let end = places.end, end <= now { set(entity, nil, now) }
    }
    // Of a device that never had a value there is nothing to say before it is there.
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
    // It is not sent again before it changes.
    if reason >= 0x80 { refusal = refusal ?? Refusal(topic: slots[place].topic, reason: reason) }
  }

  /// Whether the broker has all as it is now.
  var isSettled: Bool {
    slots.allSatisfy {
      $0.message == nil && ($0.sent ?? (entities.isEmpty ? Self.offline : nil)) == $0.wanted
    }
  }

  /// Since when the oldest message has had no answer.
  var waitingSince: MonotonicTime? { slots.compactMap { $0.message == nil ? nil : $0.sentAt }.min() }
}

import BLEWire
import JSONText
import SensorSessions

/// A device in Home Assistant: the device block of each discovery message, and the topics. Topics never
/// contain text from the device.
struct HomeDevice: Sendable {
  let address: DeviceAddress
  /// The device kind that commands use, such as `heart-rate`.
  let kind: String
  /// The advertised name, or the name from the configuration.
  let name: String?
  /// Prefix of all topics.
  let prefix: String
  /// Version of ringtap.
  let version: String
  var facts = SensorFacts()

  init(_ address: DeviceAddress, kind: String, name: String?, below prefix: String, version: String) {
    (self.address, self.kind, self.name, self.prefix) = (address, kind, name, prefix)
    self.version = version
  }

  // MARK: Topics

  /// The address as hexadecimal digits, such as `70cb0d00a1b2`.
  var digits: String { address.description.filter { $0 != ":" }.lowercased() }
  private var node: String { "ringtap_" + digits }

  /// Topic that reports whether the link is up.
  var availabilityTopic: String { "\(prefix)/sensor/\(node)/availability" }
  /// Topic on which Home Assistant announces that it has started.
  var birthTopic: String { "\(prefix)/status" }

  func topic(of entity: HomeEntity, _ end: String) -> String {
    "\(prefix)/\(entity.facts.component.rawValue)/\(node)/\(entity.rawValue)/\(end)"
  }

  // MARK: Discovery

  /// Returns the discovery message from which Home Assistant creates the entity:
  /// https://www.home-assistant.io/integrations/mqtt/#mqtt-discovery
  func discovery(of entity: HomeEntity) -> [UInt8] {
    let facts = entity.facts
    var line = JSONLine()
    line.object { line in
      line.member("name", facts.name)
      line.member("unique_id", "\(node)_\(entity.rawValue)")
      line.member("state_topic", topic(of: entity, "state"))
      line.member("availability_topic", availabilityTopic)
      line.member("qos", 1)
      line.member("device_class", known: facts.deviceClass)
      line.member("unit_of_measurement", known: facts.unit)
      line.member("state_class", known: facts.stateClass)
      if let decimals = facts.decimals { line.member("suggested_display_precision", decimals) }
      line.member("entity_category", known: facts.isDiagnostic ? "diagnostic" : nil)
      line.member("icon", known: facts.icon)
      line.member("device", object: { deviceMembers(&$0) })
      line.member(
        "origin",
        object: { line in
          line.member("name", "ringtap")
          line.member("sw_version", version)
        })
    }
    return line.octets
  }

  private func deviceMembers(_ line: inout JSONLine) {
    line.member("identifiers", array: { $0.value(node) })
    line.member(
      "connections",
      array: { line in
        line.array { line in
          line.value("bluetooth")
          line.value(address.description)
        }
      })
    line.member("name", shownName)
    line.member("manufacturer", known: shown(facts.manufacturer))
    line.member("model", known: shown(facts.model))
    line.member("hw_version", known: shown(facts.hardwareRevision))
    line.member("sw_version", known: shown(facts.firmwareRevision) ?? shown(facts.softwareRevision))
  }

  private var shownName: String { shown(name) ?? shown(facts.model) ?? "\(kind) \(address)" }

  /// Returns printable text. Home Assistant displays text unchanged.
  private func shown(_ text: String?) -> String? {
    guard let text, text.contains(where: { !$0.isWhitespace }) else { return nil }
    return text.printable
  }
}

extension JSONLine {
  fileprivate mutating func member(_ name: String, known text: String?) {
    if let text { member(name, text) }
  }
}

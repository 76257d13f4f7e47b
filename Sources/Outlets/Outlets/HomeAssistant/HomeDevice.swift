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

  /// Topic that reports the state of the link.
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

  /// Returns printable text, because Home Assistant displays text unchanged.
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

/// A value of a device that Home Assistant displays: an entity.
///
/// The raw value is part of the topics and of the unique ID, so it must never change. Device classes, state
/// classes and their units: https://developers.home-assistant.io/docs/core/entity/sensor and …/binary-sensor.
enum HomeEntity: String, CaseIterable, Hashable, Sendable {
  case heartRate = "heart_rate"
  case heartRateQuality = "heart_rate_quality"
  case worn
  case energy
  case temperature = "body_temperature"
  case skinTemperature = "skin_temperature"
  case temperatureQuality = "temperature_quality"
  case heatStrain = "heat_strain_index"
  case cadence
  case wheel
  case steps
  case calories
  case distance
  case battery
  case charging

  /// Entity type; one level of the topics.
  enum Component: String, Sendable { case sensor, binarySensor = "binary_sensor" }

  /// Fields of a discovery message, except topics and device.
  struct Facts: Sendable {
    let name: String
    var component = Component.sensor
    var deviceClass: String?
    var unit: String?
    var stateClass: String?
    /// Number of decimal places to display.
    var decimals: Int?
    var icon: String?
    /// Whether the value describes the device rather than its wearer.
    var isDiagnostic = false
  }

  var facts: Facts {
    switch self {
    case .heartRate:
      Facts(name: "Heart rate", unit: "bpm", stateClass: "measurement", decimals: 0, icon: "mdi:heart-pulse")
    case .heartRateQuality:
      Facts(
        name: "Heart rate quality", unit: "%", stateClass: "measurement", decimals: 0,
        icon: "mdi:signal", isDiagnostic: true)
    case .worn: Facts(name: "Worn", component: .binarySensor, icon: "mdi:account-check")
    // The entity has no device class, because Home Assistant's energy class does not accept kilojoules.
    case .energy:
      Facts(
        name: "Energy expended", unit: "kJ", stateClass: "total_increasing", decimals: 0, icon: "mdi:fire")
    case .temperature:
      Facts(
        name: "Body temperature", deviceClass: "temperature", unit: "°C", stateClass: "measurement",
        decimals: 2)
    case .skinTemperature:
      Facts(
        name: "Skin temperature", deviceClass: "temperature", unit: "°C", stateClass: "measurement",
        decimals: 2)
    case .temperatureQuality: Facts(name: "Temperature quality", icon: "mdi:signal", isDiagnostic: true)
    case .heatStrain:
      Facts(
        name: "Heat strain index", stateClass: "measurement", decimals: 1, icon: "mdi:thermometer-alert")
    case .cadence:
      Facts(name: "Cadence", unit: "rpm", stateClass: "measurement", decimals: 0, icon: "mdi:bike")
    case .wheel:
      Facts(name: "Wheel", unit: "rpm", stateClass: "measurement", decimals: 0, icon: "mdi:tire")
    case .steps: Facts(name: "Steps", unit: "steps", stateClass: "total_increasing", icon: "mdi:walk")
    case .calories:
      Facts(name: "Calories", unit: "kcal", stateClass: "total_increasing", decimals: 0, icon: "mdi:fire")
    case .distance:
      Facts(name: "Distance", deviceClass: "distance", unit: "m", stateClass: "total_increasing")
    case .battery:
      Facts(
        name: "Battery", deviceClass: "battery", unit: "%", stateClass: "measurement", isDiagnostic: true)
    case .charging:
      Facts(
        name: "Charging", component: .binarySensor, deviceClass: "battery_charging", isDiagnostic: true)
    }
  }

  /// Payload for an unknown value. For text values, Home Assistant has no special payload.
  var unknown: String { self == .temperatureQuality ? "unknown" : "None" }

  /// Time after which a value expires unless a new value arrives; `nil` if the value expires when the link is
  /// lost.
  var holds: Duration? {
    switch self {
    case .heartRate, .heartRateQuality, .worn: .seconds(30)
    // When the wheel stops, a sensor repeats its last event.
    case .cadence, .wheel: .seconds(5)
    default: nil
    }
  }

  /// Whether the value remains valid when the link is lost, like a day's counters and the battery level.
  var outlivesLink: Bool {
    switch self {
    case .steps, .calories, .distance, .energy, .battery: true
    default: false
    }
  }
}

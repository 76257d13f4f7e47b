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
    // No device class: Home Assistant's energy class does not accept kilojoules.
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

  /// Payload for an unknown value. For a text, Home Assistant has no special payload.
  var unknown: String { self == .temperatureQuality ? "unknown" : "None" }

  /// Time after which a value expires unless a new one arrives; `nil` if it expires when the link is lost.
  var holds: Duration? {
    switch self {
    case .heartRate, .heartRateQuality, .worn: .seconds(30)
    // When the wheel stops, a sensor repeats its last event.
    case .cadence, .wheel: .seconds(5)
    default: nil
    }
  }

  /// Whether the value remains valid when the link is lost. True for a day's counters and the battery level.
  var outlivesLink: Bool {
    switch self {
    case .steps, .calories, .distance, .energy, .battery: true
    default: false
    }
  }
}

import ArgumentParser
package import BLESensors
package import SensorSessions

/// A temperature unit that the user can choose.
package enum TemperatureUnit: String, CaseIterable, ExpressibleByArgument {
  case celsius, fahrenheit

  package var unit: TemperatureMeasurement.Unit { self == .celsius ? .celsius : .fahrenheit }
  package var sign: String { self == .celsius ? "°C" : "°F" }
  /// Returns the key of a temperature in JSON.
  package func key(_ kind: ThermometerSession.Kind) -> String {
    switch (kind, self) {
    case (.healthThermometer, .celsius): "temperatureCelsius"
    case (.healthThermometer, .fahrenheit): "temperatureFahrenheit"
    case (.core, .celsius): "coreTemperatureCelsius"
    case (.core, .fahrenheit): "coreTemperatureFahrenheit"
    }
  }
}

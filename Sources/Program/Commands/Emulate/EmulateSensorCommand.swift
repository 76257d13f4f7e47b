import ArgumentParser
import BLEEmulation
import BLEWire
import CommandKit

/// Options of every emulated sensor.
struct EmulatedSensorOptions: ParsableArguments {
  /// Range of the rate of measurements or notifications. The lowest rate is about one in 17 minutes.
  static let rates = NumberRange(VirtualPeripheralSpecification.rates.lowerBound...100_000, "a second")

  @OptionGroup var emulation: EmulationOptions

  @Option(help: "Measurements per second.", in: Self.rates)
  var rate: Double = 1

  @Option(help: "Stop after this many values on each link.", in: .count)
  var count: Int?

  @Option(
    help: "Make every n-th value shorter than its flags indicate.", in: .count)
  var malformedEvery: Int?

  @Option(help: "Lose the link after this many values.", in: .count)
  var disconnectAfter: Int?

  @Option(help: "Report no body contact at every n-th measurement.", in: .count)
  var offBodyEvery: Int?

  @Option(help: "The advertised name.")
  var name: String?

  @Option(help: "The public device address.")
  var address: String?

  func validate() throws {
    if let address, DeviceAddress(address, type: .public) == nil {
      throw ValidationError("--address must look like 70:CB:0D:00:A1:B2")
    }
  }

  func run(_ model: some SensorModel) async throws {
    var model = model
    if let name { model.name = name }
    if let address = address.flatMap({ DeviceAddress($0, type: .public) }) { model.address = address }
    guard (1...31).contains(model.advertisingData.count), !model.name.isEmpty else {
      throw ValidationError("--name is too long: the whole advertisement has 31 bytes")
    }
    var configuration = EmulatedSensor.Configuration()
    configuration.ticksPerSecond = rate
    configuration.valueLimit = count
    configuration.malformedEvery = malformedEvery
    configuration.disconnectAfter = disconnectAfter
    configuration.offBodyEvery = offBodyEvery
    let (sensor, behaviour) = (model, configuration)
    let emulation = Emulation(
      "values", key: "sentValues", device: .init(address: model.address, name: model.name)
    ) {
      [EmulatedSensor(sensor, behaviour)]
    } sent: { peripheral in
      guard let sensor = peripheral as? EmulatedSensor else { return (0, 0) }
      return (sensor.sent, sensor.dropped)
    }
    try await emulation.run(self.emulation)
  }
}

/// Options for the wearer's heart, on every command whose sensor measures it. The values are parsed as in a
/// `virtual:` transport.
struct EmulatedHeartOptions: ParsableArguments {
  @Option(
    help: ArgumentHelp(
      "Beats per minute: 72, or 64-80 for a rise and fall each minute.", valueName: "n"))
  var heartRate: String?

  @Option(
    help: ArgumentHelp(
      "Amplitude of the heart rate's variation by breathing and a slow wave, 0 to 0.4 (default: 0.05).",
      valueName: "share"))
  var variability: String?

  @Option(help: ArgumentHelp("Fraction of premature beats, 0 to 0.5.", valueName: "share"))
  var ectopic: String?

  func validate() throws { _ = try wearer() }

  /// The simulated wearer; `nil` if no option describes one.
  func wearer(and others: [(String, String?)] = []) throws -> Wearer? {
    var wearer: Wearer?
    for case (let option, let text?) in [
      ("heart-rate", heartRate), ("variability", variability), ("ectopic", ectopic),
    ] + others {
      do throws(Wearer.Refusal) {
        var changed = wearer ?? Wearer()
        try changed.set(option, text)
        wearer = changed
      } catch { throw ValidationError("--\(option) \(text): \(error.range) is wanted") }
    }
    return wearer
  }
}

/// `ringtap emulate heart-rate`.
struct EmulateHeartRateCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "heart-rate",
    abstract: "Emulate a heart-rate strap with a simulated wearer: rate, contact, intervals, energy.",
    discussion: """
      EXAMPLES
        sudo ringtap emulate heart-rate --vhci --real-time
        ringtap emulate heart-rate --transport tcp-server:127.0.0.1:6402 \\
          --off-body-every 10
            then, elsewhere: ringtap heart-rate --transport tcp-client:127.0.0.1:6402
      """)

  @OptionGroup var sensor: EmulatedSensorOptions
  @OptionGroup var heart: EmulatedHeartOptions

  func run() async throws {
    var model = StrapModel()
    model.rhythm = try heart.wearer()?.rhythm ?? model.rhythm
    try await sensor.run(model)
  }
}

/// `ringtap emulate thermometer`.
struct EmulateThermometerCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "thermometer",
    abstract: "Emulate an ear thermometer: intermediate values, then an indicated result.",
    discussion: """
      EXAMPLE
        ringtap emulate thermometer --transport tcp-server:127.0.0.1:6402 \\
          --unit fahrenheit
      """)

  @OptionGroup var sensor: EmulatedSensorOptions
  @Option(help: "celsius or fahrenheit.") var unit = TemperatureUnit.celsius

  func run() async throws {
    var model = ThermometerModel()
    model.unit = unit.unit
    try await sensor.run(model)
  }
}

/// `ringtap emulate core`.
struct EmulateCoreCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "core",
    abstract: "Emulate a CORE body temperature sensor: core and skin, quality, heat strain.",
    discussion: """
      EXAMPLE
        ringtap emulate core --transport tcp-server:127.0.0.1:6402 --off-body-every 5
      """)

  @OptionGroup var sensor: EmulatedSensorOptions
  @Option(help: "celsius or fahrenheit.") var unit = TemperatureUnit.celsius

  func run() async throws {
    var model = CoreModel()
    model.unit = unit.unit
    try await sensor.run(model)
  }
}

/// `ringtap emulate cycling`.
struct EmulateCyclingCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "cycling",
    abstract: "Emulate a cycling sensor with a simulated rider: wheel and crank revolutions.",
    discussion: """
      EXAMPLE
        ringtap emulate cycling --transport tcp-server:127.0.0.1:6402
      """)

  @OptionGroup var sensor: EmulatedSensorOptions

  func run() async throws { try await sensor.run(CyclingModel()) }
}

/// `ringtap emulate polar`.
struct EmulatePolarCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "polar",
    abstract: "Emulate a Polar sensor: heart rate, and raw ECG, acceleration and PPG on request.",
    discussion: """
      ECG frames are plain, acceleration and PPG frames are compressed. --rate is the rate of frames.

      EXAMPLE
        ringtap emulate polar --transport tcp-server:127.0.0.1:6402 --rate 2
      """)

  @OptionGroup var sensor: EmulatedSensorOptions
  @OptionGroup var heart: EmulatedHeartOptions

  func run() async throws {
    var model = PolarModel()
    model.rhythm = try heart.wearer()?.rhythm ?? model.rhythm
    try await sensor.run(model)
  }
}

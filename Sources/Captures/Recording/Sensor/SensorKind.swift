public import BLEHost
import BLESensors
import BLEWire
import ColmiRing
public import SensorSessions

/// Kind of sensor: search criteria, session on each link, samples, and tables of a recording.
///
/// The built-in kinds are static members, such as `heartRate` and `ring`; Swift infers `Sample` from them.
public struct SensorKind<Sample: NotificationSample>: Sendable {
  /// Search criteria.
  public let search: SensorSearch
  /// Emulation for use without the hardware.
  package let emulation: SensorEmulation
  private let feed: @Sendable () -> SensorFeed<Sample>
  private let recorder: @Sendable (SensorRecording) async throws(HostError) -> SensorRecording.Result

  /// Creates a kind of sensor.
  ///
  /// - Parameters:
  ///   - search: search criteria.
  ///   - type: type of the session on each link.
  ///   - settings: settings to start the stream with.
  ///   - emulation: emulation for use without the hardware.
  ///   - tables: returns the tables of a recording.
  package init<Session: SensorSession, Tables: SampleTables>(
    _ search: SensorSearch, _ type: Session.Type, _ settings: Session.Settings, emulation: SensorEmulation,
    _ tables: @escaping @Sendable (Session) -> Tables
  ) where Session.Sample == Sample, Tables.Sample == Sample {
    self.search = search
    self.emulation = emulation
    feed = { SensorFeed(type, settings) }
    recorder = { recording throws(HostError) in try await recording.record(type, settings, tables) }
  }

  /// Returns a feed that streams samples over the links of one session.
  package func makeFeed() -> SensorFeed<Sample> { feed() }

  func record(_ recording: SensorRecording) async throws(HostError) -> SensorRecording.Result {
    try await recorder(recording)
  }
}

extension SensorKind where Sample == RingRawReading {
  /// COLMI rings, which rarely advertise their service. The samples are those of the raw stream.
  public static var ring: SensorKind {
    var search = SensorSearch("ring", services: [RingUUID.commandService])
    search.matchesName = { RingName.matches($0) }
    return SensorKind(search, RingSession.self, (), emulation: .specification("ring")) { _ in RingTables() }
  }
}

// Names: reference `sensor-services.md`, 1.4 and 4.1.

extension SensorKind where Sample == HeartRateSample {
  /// Straps and watches with the Heart Rate service.
  public static var heartRate: SensorKind { heartRate(.none) }

  /// Creates a kind for straps and watches with the Heart Rate service, with an action before the first
  /// measurement.
  ///
  /// - Parameter preparation: action, such as resetting the energy expended.
  public static func heartRate(_ preparation: HeartRateSession.Preparation) -> SensorKind {
    let search = SensorSearch(
      "heart-rate sensor", services: [.heartRate], nameStarts: ["Polar ", "TICKR ", "HRM-"])
    return SensorKind(
      search, HeartRateSession.self, preparation, emulation: .specification("heart-rate")
    ) { _ in HeartRateTables() }
  }
}

extension SensorKind where Sample == TemperatureSample {
  /// Sensors with the Health Thermometer service, and CORE sensors, which list their own service only in the
  /// scan response.
  public static var thermometer: SensorKind {
    let search = SensorSearch(
      "thermometer", services: [.healthThermometer, CoreUUID.service, CoreUUID.legacyService],
      nameStarts: ["CORE"])
    return SensorKind(search, ThermometerSession.self, (), emulation: .specification("thermometer")) { _ in
      TemperatureTables()
    }
  }
}

extension SensorKind where Sample == CyclingSample {
  /// Sensors with the Cycling Speed and Cadence service.
  public static var cycling: SensorKind {
    let search = SensorSearch("cycling sensor", services: [.cyclingSpeedAndCadence])
    return SensorKind(search, CyclingSession.self, (), emulation: .specification("cycling")) { _ in
      CyclingTables()
    }
  }
}

extension SensorKind where Sample == PolarFrameSample {
  /// Polar sensors with raw data. The stream is the electrocardiogram. The sensors do not advertise the raw
  /// data service.
  public static var polar: SensorKind { polar(PolarSession.Settings(.ecg)) }

  /// Creates a kind for Polar sensors with other streams.
  ///
  /// - Parameter settings: streams and their sample rates.
  public static func polar(_ settings: PolarSession.Settings) -> SensorKind {
    let search = SensorSearch("Polar sensor", services: [PolarUUID.service], nameStarts: ["Polar "])
    return SensorKind(search, PolarSession.self, settings, emulation: .specification("polar")) {
      PolarTables($0.streams)
    }
  }
}

/// Kind of sensor with any type of sample, for lists of several kinds.
public struct AnySensorKind: Sendable {
  /// Search criteria.
  public let search: SensorSearch
  private let recorder: @Sendable (SensorRecording) async throws(HostError) -> SensorRecording.Result

  /// Creates a kind from a typed kind.
  ///
  /// - Parameter kind: typed kind, such as `.ring`.
  public init<Sample>(_ kind: SensorKind<Sample>) {
    search = kind.search
    recorder = { recording throws(HostError) in try await kind.record(recording) }
  }

  func record(_ recording: SensorRecording) async throws(HostError) -> SensorRecording.Result {
    try await recorder(recording)
  }

  /// All built-in kinds, by their names in commands and configurations.
  public static let named: [(name: String, kind: AnySensorKind)] = [
    ("ring", AnySensorKind(.ring)), ("heart-rate", AnySensorKind(.heartRate)),
    ("thermometer", AnySensorKind(.thermometer)), ("cycling", AnySensorKind(.cycling)),
    ("polar", AnySensorKind(.polar)),
  ]

  /// Finds a kind by its name; `nil` if the name is unknown.
  ///
  /// - Parameter name: a name such as `heart-rate`. The form `polar:ecg,acc` selects streams of a Polar
  ///   sensor.
  public init?(named name: String) {
    if name.hasPrefix("polar:") {
      guard let settings = PolarSession.Settings(named: String(name.dropFirst("polar:".count))) else {
        return nil
      }
      self = AnySensorKind(.polar(settings))
      return
    }
    guard let kind = Self.named.first(where: { $0.name == name })?.kind else { return nil }
    self = kind
  }
}

extension SensorRecording {
  /// Records a sensor of a kind chosen at run time.
  public func run(_ kind: AnySensorKind) async throws(HostError) -> Result { try await kind.record(self) }
}

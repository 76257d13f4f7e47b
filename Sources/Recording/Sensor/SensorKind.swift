import BLECore
public import BLEHost
import BLESensors
import ColmiRing
public import SensorSessions

/// One kind of sensor in one value: how it is found, what is done on a link to it, what its samples are, and the tables
/// that a recording of it leaves.
///
/// The kinds that are known are its static members, such as `heartRate` and `ring`; Swift infers `Sample` from them.
public struct SensorKind<Sample: NotificationSample>: Sendable {
  /// How it is found.
  public let search: SensorSearch
  /// What plays its part where none is at hand.
  package let emulation: SensorEmulation
  private let feed: @Sendable () -> SensorFeed<Sample>
  private let recorder: @Sendable (RecordingOrder) async throws(HostError) -> RecordingOrder.Outcome

  /// - Parameters:
  ///   - search: how it is found.
  ///   - type: what is done on each link.
  ///   - settings: what the stream is started with.
  ///   - emulation: what plays its part.
  ///   - tables: those of a recording.
  init<Session: SensorSession, Tables: SampleTables>(
    _ search: SensorSearch, _ type: Session.Type, _ settings: Session.Settings, emulation: SensorEmulation,
    _ tables: @escaping @Sendable (Session, SensorCounts) -> Tables
  ) where Session.Sample == Sample, Tables.Sample == Sample {
    self.search = search
    self.emulation = emulation
    feed = { SensorFeed(type, settings) }
    recorder = { order throws(HostError) in
      let result = try await order.sensorRecording.record(type, settings, tables)
      return (result.report, result.failure)
    }
  }

  /// What streams over the links of one session.
  package func makeFeed() -> SensorFeed<Sample> { feed() }

  /// Records one, until there is a reason to end.
  ///
  /// - Throws: what kept it from starting; later the outcome has the failure instead.
  package func record(_ order: RecordingOrder) async throws(HostError) -> RecordingOrder.Outcome {
    try await recorder(order)
  }
}

extension SensorKind where Sample == RingRawReading {
  /// COLMI rings, which seldom advertise their service. The samples are those of the raw stream.
  public static var ring: SensorKind { SensorKind() }

  private init() {
    var search = SensorSearch("ring", services: [RingUUID.commandService])
    search.matchesName = { RingName.matches($0) }
    self.search = search
    emulation = .specification("ring")
    feed = { SensorFeed(RingSession.self, ()) }
    recorder = { order throws(HostError) in
      let result = try await order.ringCapture.run()
      return (result.report, result.failure)
    }
  }
}

// Names: reference `sensor-services.md`, 1.4 and 4.1.

extension SensorKind where Sample == HeartRateSample {
  /// Straps and watches with the Heart Rate service.
  public static var heartRate: SensorKind {
    let search = SensorSearch(
      "heart-rate sensor", services: [.heartRate], nameStarts: ["Polar ", "TICKR ", "HRM-"])
    return SensorKind(search, HeartRateSession.self, .none, emulation: .specification("heart-rate")) {
      HeartRateTables(counts: $1)
    }
  }
}

extension SensorKind where Sample == TemperatureSample {
  /// Health Thermometer, and CORE sensors, whose own service stands in the scan response only.
  public static var thermometer: SensorKind {
    let search = SensorSearch(
      "thermometer", services: [.healthThermometer, CoreUUID.service, CoreUUID.legacyService],
      nameStarts: ["CORE"])
    return SensorKind(search, ThermometerSession.self, (), emulation: .specification("thermometer")) {
      TemperatureTables(counts: $1)
    }
  }
}

extension SensorKind where Sample == CyclingSample {
  /// Sensors with the Cycling Speed and Cadence service.
  public static var cycling: SensorKind {
    let search = SensorSearch("cycling sensor", services: [.cyclingSpeedAndCadence])
    return SensorKind(search, CyclingSession.self, (), emulation: .specification("cycling")) {
      CyclingTables(counts: $1)
    }
  }
}

extension SensorKind where Sample == PolarFrameSample {
  /// Polar sensors that have raw data, of which the electrocardiogram is taken. Their service for it is not advertised.
  public static var polar: SensorKind { polar(PolarSession.Settings(.ecg)) }

  /// The same with another stream.
  ///
  /// - Parameter settings: which stream, and how often it is sampled.
  public static func polar(_ settings: PolarSession.Settings) -> SensorKind {
    let search = SensorSearch("Polar sensor", services: [PolarUUID.service], nameStarts: ["Polar "])
    return SensorKind(search, PolarSession.self, settings, emulation: .specification("polar")) {
      PolarTables($0.type, sampleRate: $0.sampleRate, factor: $0.factor, counts: $1)
    }
  }
}

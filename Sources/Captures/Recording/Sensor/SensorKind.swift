public import BLEHost
import BLESensors
import BLEStack
public import BLEWire
import ColmiRing
public import SensorSessions

/// The parts of a kind of sensor: search criteria, the session on a link to it, its samples, the tables of a
/// recording, and an emulation. Each kind is a type.
package protocol SensorDefinition<Sample>: Sendable {
  associatedtype Sample: NotificationSample
  associatedtype Session: SensorSession where Session.Sample == Sample
  associatedtype Tables: SampleTables where Tables.Sample == Sample

  /// Name of the kind in commands, files and messages to brokers.
  var name: String { get }
  var search: SensorSearch { get }
  /// Settings to start the stream with.
  var settings: Session.Settings { get }
  var emulation: SensorEmulation { get }
  /// The tables of a recording that begins with this session.
  func tables(of session: Session) -> Tables
}

/// A kind that commands and the daemon's file know by its name.
package protocol NamedSensor: SensorDefinition {
  static var name: String { get }

  /// Creates the kind with its usual settings.
  init()
  /// Creates the kind with settings.
  ///
  /// - Parameter words: the settings in `KIND:SETTINGS`, separated by commas; empty for none.
  /// - Returns: `nil` if the kind does not have these settings.
  init?(_ words: [Substring])
  /// The tables that a recording of the kind may contain.
  ///
  /// - Parameters:
  ///   - name: name of a recorded table. Only kinds with variable columns use it.
  ///   - columnCount: number of columns of that table.
  static func tables(named name: String, columnCount: Int) -> [RecordedTable]
}

extension NamedSensor {
  package var name: String { Self.name }
  package var emulation: SensorEmulation { .specification(Self.name) }
}

extension NamedSensor where Session.Settings == Void {
  package var settings: Void { () }

  package init?(_ words: [Substring]) {
    guard words.isEmpty else { return nil }
    self.init()
  }
}

/// One kind of sensor: search criteria, the session on a link to it, its samples, and the tables of a
/// recording.
///
/// The built-in kinds are static members, such as `heartRate` and `ring`; Swift infers `Sample` from them.
public struct SensorKind<Sample: NotificationSample>: Sendable {
  package let definition: any SensorDefinition<Sample>

  package init(_ definition: any SensorDefinition<Sample>) { self.definition = definition }

  /// Search criteria.
  public var search: SensorSearch { definition.search }
}

/// A kind of sensor with any type of sample, for lists of several kinds.
public struct AnySensorKind: Sendable {
  /// The built-in kinds.
  package static let types: [any NamedSensor.Type] = [
    RingKind.self, HeartRateKind.self, ThermometerKind.self, CyclingKind.self, PolarKind.self,
  ]
  /// Names of the built-in kinds in commands and configurations.
  public static let names = types.map { $0.name }

  package let definition: any SensorDefinition

  /// - Parameter kind: such as `.ring`.
  public init<Sample>(_ kind: SensorKind<Sample>) { definition = kind.definition }

  /// - Parameter text: a name such as `heart-rate`, or a name with settings: `polar:ecg,acc`,
  ///   `polar:acc,rate=100`, `heart-rate:reset-energy`.
  public init?(named text: String) {
    let parts = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
    let words = parts.count > 1 ? parts[1].split(separator: ",", omittingEmptySubsequences: false) : []
    guard let type = Self.types.first(where: { $0.name == parts[0] }), let kind = type.init(words) else {
      return nil
    }
    definition = kind
  }

  /// Name of the kind.
  public var name: String { definition.name }
  /// Search criteria.
  public var search: SensorSearch { definition.search }
}

// MARK: - The built-in kinds

/// COLMI rings, which rarely advertise their service. The samples are those of the raw stream.
package struct RingKind: NamedSensor {
  package static let name = "ring"

  package init() {}

  package var search: SensorSearch {
    var search = SensorSearch("ring", services: [RingUUID.commandService])
    search.matchesName = { RingName.matches($0) }
    return search
  }

  package func tables(of session: RingSession) -> RingTables { RingTables() }

  package static func tables(named name: String, columnCount: Int) -> [RecordedTable] {
    RingStream.allCases.map(\.table) + [TickRows.table]
  }
}

extension SensorKind where Sample == RingRawReading {
  /// COLMI rings, which rarely advertise their service. The samples are those of the raw stream.
  public static var ring: SensorKind { SensorKind(RingKind()) }
}

// Names: reference `sensor-services.md`, 1.4 and 4.1.

/// Straps and watches with the Heart Rate service.
package struct HeartRateKind: NamedSensor {
  package static let name = "heart-rate"

  package private(set) var settings = HeartRateSession.Settings.none

  package init() {}

  package init(_ settings: HeartRateSession.Settings) { self.settings = settings }

  package init?(_ words: [Substring]) {
    guard words.isEmpty || words == ["reset-energy"] else { return nil }
    self.init(words.isEmpty ? .none : .resetEnergy)
  }

  package var search: SensorSearch {
    SensorSearch("heart-rate sensor", services: [.heartRate], nameStarts: ["Polar ", "TICKR ", "HRM-"])
  }

  package func tables(of session: HeartRateSession) -> HeartRateTables { HeartRateTables() }

  package static func tables(named name: String, columnCount: Int) -> [RecordedTable] {
    HeartRateTables.tables
  }
}

extension SensorKind where Sample == HeartRateSample {
  /// Straps and watches with the Heart Rate service.
  public static var heartRate: SensorKind { heartRate(.none) }

  /// Creates a kind for straps and watches with the Heart Rate service, with an action before the first
  /// measurement.
  ///
  /// - Parameter preparation: action, such as resetting the energy expended.
  public static func heartRate(_ preparation: HeartRateSession.Preparation) -> SensorKind {
    SensorKind(HeartRateKind(preparation))
  }
}

/// Sensors with the Health Thermometer service, and CORE sensors, whose own service is only in the scan
/// response.
package struct ThermometerKind: NamedSensor {
  package static let name = "thermometer"

  package init() {}

  package var search: SensorSearch {
    SensorSearch(
      "thermometer", services: [.healthThermometer, CoreUUID.service, CoreUUID.legacyService],
      nameStarts: ["CORE"])
  }

  package func tables(of session: ThermometerSession) -> TemperatureTables { TemperatureTables() }

  package static func tables(named name: String, columnCount: Int) -> [RecordedTable] {
    TemperatureTables.tables
  }
}

extension SensorKind where Sample == TemperatureSample {
  /// Sensors with the Health Thermometer service, and CORE sensors, whose own service is only in the scan
  /// response.
  public static var thermometer: SensorKind { SensorKind(ThermometerKind()) }
}

/// Sensors with the Cycling Speed and Cadence service.
package struct CyclingKind: NamedSensor {
  package static let name = "cycling"

  package init() {}

  package var search: SensorSearch { SensorSearch("cycling sensor", services: [.cyclingSpeedAndCadence]) }

  package func tables(of session: CyclingSession) -> CyclingTables { CyclingTables() }

  package static func tables(named name: String, columnCount: Int) -> [RecordedTable] { CyclingTables.tables }
}

extension SensorKind where Sample == CyclingSample {
  /// Sensors with the Cycling Speed and Cadence service.
  public static var cycling: SensorKind { SensorKind(CyclingKind()) }
}

/// Polar sensors with raw data. They do not advertise the raw data service.
package struct PolarKind: NamedSensor {
  package static let name = "polar"
  /// Samples per second that can be requested.
  package static let rates = 1...1000 as ClosedRange<UInt16>

  package private(set) var settings = PolarSession.Settings(.ecg)

  package init() {}

  package init(_ settings: PolarSession.Settings) { self.settings = settings }

  package init?(_ words: [Substring]) {
    let mark = "rate="
    let streams = words.filter { !$0.hasPrefix(mark) }
    let rates = words.filter { $0.hasPrefix(mark) }.map { UInt16($0.dropFirst(mark.count)) ?? 0 }
    guard var settings = PolarSession.Settings(named: words.isEmpty ? "ecg" : streams.joined(separator: ",")),
      rates.allSatisfy(Self.rates.contains), rates.isEmpty || rates.count == 1 && settings.streams.count == 1
    else { return nil }
    settings.streams[0].sampleRate = rates.first
    self.init(settings)
  }

  package var search: SensorSearch {
    SensorSearch("Polar sensor", services: [PolarUUID.service], nameStarts: ["Polar "])
  }

  package func tables(of session: PolarSession) -> PolarTables { PolarTables(session.streams) }

  package static func tables(named name: String, columnCount: Int) -> [RecordedTable] {
    PolarTables.tables(named: name, channelCount: columnCount - PolarRows.timeCount)
  }
}

extension SensorKind where Sample == PolarFrameSample {
  /// Polar sensors with raw data; the stream is the electrocardiogram. They do not advertise the raw data
  /// service.
  public static var polar: SensorKind { SensorKind(PolarKind()) }

  /// Creates a kind for Polar sensors with other streams.
  ///
  /// - Parameter settings: streams and their sample rates.
  public static func polar(_ settings: PolarSession.Settings) -> SensorKind {
    SensorKind(PolarKind(settings))
  }
}

/// A value of a user-defined sensor, decoded on the receive thread.
///
/// ```swift
/// struct Breath: SensorSample {
///   let time: ReceiveTime
///   let perMinute: Double
///
///   init(decoding value: Span<UInt8>, at time: ReceiveTime) throws(WireError) {
///     guard value.count >= 1 else { throw .truncated(.att, needed: 1, available: value.count) }
///     (self.time, perMinute) = (time, Double(value[0]) / 2)
///   }
/// }
/// ```
///
/// Values pass through a queue without allocation, so the type may hold numbers, but no arrays, strings or
/// objects. A value whose initialiser throws is skipped and counted as malformed.
public protocol SensorSample: NotificationSample {
  /// Time of reception by the kernel, as passed to the initializer.
  var time: ReceiveTime { get }
}

/// A column in the recorded table of a user-defined sensor: its name, unit and values.
///
/// The first column of every table is always `time_ns`, the kernel's receive time in nanoseconds since 1970.
/// Include the unit in the name: `depth_ml`.
public struct SensorColumn<Sample: SensorSample>: Sendable {
  fileprivate let column: RecordedColumn
  fileprivate let value: @Sendable (Sample) -> Double?

  /// Creates a column of numbers.
  ///
  /// - Parameters:
  ///   - name: name of the column, without commas.
  ///   - unit: UCUM unit, such as `1/min` or `mL`; empty for a number without a unit.
  ///   - decimals: digits after the point, 0 … 9.
  ///   - value: returns the value for a sample; `nil` leaves the cell empty, which is not 0.
  public static func number(
    _ name: String, unit: String = "", decimals: Int, _ value: @escaping @Sendable (Sample) -> Double?
  ) -> SensorColumn {
    precondition((0...9).contains(decimals), "a column has 0 to 9 decimals")
    return SensorColumn(column: RecordedColumn(name, .float64(decimals: decimals), unit: unit), value: value)
  }
}

/// Emulation of a sensor, for use without the hardware.
package enum SensorEmulation: Sendable {
  /// Specification of the form used by `virtual:`, such as `heart-rate`.
  case specification(String)
  /// Characteristic that notifies values. The closure returns the value with the given number, counted from
  /// 0.
  case values(
    name: String, service: BluetoothUUID, characteristic: BluetoothUUID, @Sendable (Int) -> [UInt8])
}

extension SensorKind where Sample: SensorSample {
  /// Creates a kind of sensor that notifies one characteristic, with its search criteria, decoder, table and
  /// emulation.
  ///
  /// ```swift
  /// let belt = SensorKind(
  ///   "breathing belt", of: Breath.self, service: "f00d0001-8e6a-4a6b-9c3e-2b1f5d7a9c10",
  ///   characteristic: "f00d0002-8e6a-4a6b-9c3e-2b1f5d7a9c10",
  ///   columns: [.number("breaths_per_minute", unit: "1/min", decimals: 1) { $0.perMinute }],
  ///   emulation: { number in [UInt8(24 + number % 8)] })
  /// try await radio.withSensor(belt) { belt in
  ///   for try await breath in belt.values { print(breath.perMinute) }
  /// }
  /// ```
  ///
  /// Like with the built-in kinds, sessions reconnect after a lost link, reuse attributes discovered on an
  /// earlier link, and log packets. For a sensor that needs requests before it streams, write a
  /// `SensorSession`.
  ///
  /// - Parameters:
  ///   - name: one or two words for messages and for the advertised name of the emulated sensor; at most 29
  ///     bytes.
  ///   - type: type of the decoded values.
  ///   - service: the advertised service, which contains the characteristic.
  ///   - nameStarts: prefixes of the advertised name, for sensors that do not advertise the service.
  ///   - characteristic: the characteristic that notifies or indicates.
  ///   - table: name of the recorded table's file, without extension; `values` by default.
  ///   - columns: columns of the table after the time.
  ///   - emulation: returns the bytes of the emulated value with the given number, counted from 0.
  public init(
    _ name: String, of type: Sample.Type, service: BluetoothUUID, nameStarts: [String] = [],
    characteristic: BluetoothUUID, table: String = "values", columns: [SensorColumn<Sample>],
    emulation: @escaping @Sendable (Int) -> [UInt8] = { _ in [] }
  ) {
    precondition(name.utf8.count <= 29, "an advertisement has room for a name of 29 octets")
    self.init(
      OwnKind(
        name: name, search: SensorSearch(name, services: [service], nameStarts: nameStarts),
        settings: CharacteristicSession.Settings(
          name: name, service: service, characteristic: characteristic),
        emulation: .values(name: name, service: service, characteristic: characteristic, emulation),
        tables: ValueTables(table, columns)))
  }
}

/// The definition of a user-defined sensor.
private struct OwnKind<Sample: SensorSample>: SensorDefinition {
  let name: String
  let search: SensorSearch
  let settings: CharacteristicSession<Sample>.Settings
  let emulation: SensorEmulation
  let tables: ValueTables<Sample>

  func tables(of session: CharacteristicSession<Sample>) -> ValueTables<Sample> { tables }
}

/// A connected sensor that notifies one characteristic.
struct CharacteristicSession<Sample: SensorSample>: SensorSession {
  struct Settings: Sendable {
    let name: String
    let service: BluetoothUUID
    let characteristic: BluetoothUUID
  }

  private let link: SensorLink
  private let characteristic: GATTDatabase.Characteristic

  static func start(
    _ settings: Settings, on connection: Connection, into sink: SampleSink<Sample>
  ) async throws(HostError) -> CharacteristicSession {
    let link = try await SensorLink(
      connection, SensorNeed([settings.characteristic], of: settings.service))
    guard let characteristic = link.characteristic(settings.characteristic, in: settings.service) else {
      throw link.lacks("characteristic \(settings.characteristic) and is not a \(settings.name)")
    }
    do throws(GATTError) {
      _ = try await link.connection.subscribe(characteristic) { sink.take($0.value, at: $1) }
    } catch { throw .gatt(error) }
    return CharacteristicSession(link: link, characteristic: characteristic)
  }

  func complete() async throws(HostError) -> SensorFacts? { try await link.facts() }

  func stop() async { try? await link.connection.unsubscribe(all: characteristic) }
}

/// The only table of a user-defined sensor.
private struct ValueTables<Sample: SensorSample>: SampleTables {
  let tables: [RecordedTable]
  private let columns: [SensorColumn<Sample>]

  init(_ name: String, _ columns: [SensorColumn<Sample>]) {
    var table = RecordedTable(name: name, columns: [.time("time_ns")] + columns.map(\.column))
    table.isOwn = true
    tables = [table]
    self.columns = columns
  }

  static func time(of sample: Sample) -> ReceiveTime { sample.time }

  mutating func append(_ sample: Sample, to files: inout RecordingFiles) {
    files.append(ValueRow(sample: sample, columns: columns), to: 0)
  }
}

private struct ValueRow<Sample: SensorSample>: RecordedRow {
  let sample: Sample
  let columns: [SensorColumn<Sample>]

  func encode<Output: RowOutput>(into output: inout Output) {
    output.append(sample.time.nanoseconds)
    for column in columns {
      guard case .float64(let decimals) = column.column.kind else { continue }
      output.append(column.value(sample), decimals: decimals)
    }
  }
}

public import BLEHost
import BLEStack
public import BLEWire
import SensorSessions

/// A value of a sensor of your own, decoded on the receive thread.
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
/// It goes through a queue without an allocation: hold numbers, no arrays, texts or objects. A value that throws is skipped and
/// counted as malformed.
public protocol SensorSample: NotificationSample {
  /// When the kernel had it: what the initialiser got.
  var time: ReceiveTime { get }
}

/// A column of the table that a recording of a sensor of your own leaves: its name, its unit, and what stands in it.
///
/// The first column of every table is `time_ns`, the kernel's receive time in nanoseconds since 1970; it is there by itself.
/// Have the name say the unit: `depth_ml`.
public struct SensorColumn<Sample: SensorSample>: Sendable {
  fileprivate let column: RecordedColumn
  fileprivate let value: @Sendable (Sample) -> Double?

  /// A number.
  ///
  /// - Parameters:
  ///   - name: of the column, without commas.
  ///   - unit: as UCUM has it, such as `1/min` or `mL`; empty where there is none.
  ///   - decimals: digits behind the point, 0 … 9.
  ///   - value: of a sample; `nil` leaves the cell empty, which is not 0.
  public static func number(
    _ name: String, unit: String = "", decimals: Int, _ value: @escaping @Sendable (Sample) -> Double?
  ) -> SensorColumn {
    precondition((0...9).contains(decimals), "a column has 0 to 9 decimals")
    return SensorColumn(column: RecordedColumn(name, .float64(decimals: decimals), unit: unit), value: value)
  }
}

/// What plays the part of a sensor that is not at hand.
package enum SensorEmulation: Sendable {
  /// As `virtual:` has it, such as `heart-rate`.
  case specification(String)
  /// One characteristic that notifies values by their number, from 0.
  case values(
    name: String, service: BluetoothUUID, characteristic: BluetoothUUID, @Sendable (Int) -> [UInt8])
}

extension SensorKind where Sample: SensorSample {
  /// A sensor of your own, which notifies one characteristic: how it is found, how its values are read, what is recorded of
  /// it, and how it is emulated.
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
  /// It then is a kind as those that are built in: lost links are made again, attributes of an earlier link are used again,
  /// packets are logged. For a sensor that must be asked before it streams write a `SensorSession`.
  ///
  /// - Parameters:
  ///   - name: what is looked for, in a word or two; also its advertised name where it is emulated, at most 29 octets.
  ///   - type: what a value is decoded to.
  ///   - service: has the characteristic, and is advertised.
  ///   - nameStarts: how the advertised name of one begins that does not advertise its service.
  ///   - characteristic: notifies or indicates.
  ///   - table: the file of a recording, without its ending; `values` if not given.
  ///   - columns: those of the table, behind the time.
  ///   - emulation: the octets of an emulated one's value by its number, from 0.
  public init(
    _ name: String, of type: Sample.Type, service: BluetoothUUID, nameStarts: [String] = [],
    characteristic: BluetoothUUID, table: String = "values", columns: [SensorColumn<Sample>],
    emulation: @escaping @Sendable (Int) -> [UInt8] = { _ in [] }
  ) {
    precondition(name.utf8.count <= 29, "an advertisement has room for a name of 29 octets")
    let settings = CharacteristicSession<Sample>.Settings(
      name: name, service: service, characteristic: characteristic)
    self.init(
      SensorSearch(name, services: [service], nameStarts: nameStarts), CharacteristicSession<Sample>.self,
      settings,
      emulation: .values(name: name, service: service, characteristic: characteristic, emulation)
    ) { _ in ValueTables(table, columns) }
  }
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
      throw link.lacks("characteristic \(settings.characteristic) and is no \(settings.name)")
    }
    do throws(GATTError) {
      _ = try await link.client.subscribe(characteristic) { sink.take($0.value, at: $1) }
    } catch { throw .gatt(error) }
    return CharacteristicSession(link: link, characteristic: characteristic)
  }

  func complete() async throws(HostError) -> SensorFacts? { try await link.facts() }

  func stop() async { try? await link.client.unsubscribe(all: characteristic) }
}

/// The one table of such a sensor.
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

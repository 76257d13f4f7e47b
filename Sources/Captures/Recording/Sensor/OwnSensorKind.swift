public import BLEHost
import BLEStack
public import BLEWire
import SensorSessions

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
  ///   - name: one or two words for messages, also the advertised name of the emulated sensor; at most 29
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

package import BLEHost
import BLELinux
import BLESensors
package import BLEWire
package import CommandKit
package import Fleet
import JSONText
package import Outlets
package import Recording
package import SensorSessions

/// The validated configuration file of `ringtap daemon`.
///
/// ```json
/// {
///   "directory": "/var/lib/ringtap/captures",
///   "radio": {"adapter": "00:1A:7D:DA:71:13", "mode": "auto"},
///   "newCaptureHours": 24,
///   "syncSeconds": 1,
///   "keepDays": 30,
///   "keepGigabytes": 20,
///   "keepFreeGigabytes": 1,
///   "metrics": "127.0.0.1:9469",
///   "devices": [
///     {"name": "left", "address": "70:CB:0D:00:A1:B2", "sensor": "ring"},
///     {"name": "chest", "address": "C4:12:34:56:78:9A", "addressType": "random", "sensor": "heart-rate",
///      "format": "npy", "link": {"interval": "7.5-15"}},
///     {"name": "h10", "address": "A0:9E:1A:00:00:01", "sensor": "polar", "stream": "ecg", "rate": 130}
///   ]
/// }
/// ```
///
/// Only `directory` and `devices` with name, address and sensor are required. A gigabyte is 10⁹ bytes.
/// `radios` lists several adapters, and `adapter` ties a device to an adapter:
///
/// ```json
/// {
///   "radios": [{"adapter": "00:1A:7D:DA:71:13", "links": 7}, {"adapter": "00:1A:7D:DA:71:14"}],
///   "devices": [{"name": "left", "address": "70:CB:0D:00:A1:B2", "sensor": "ring",
///                "adapter": "00:1A:7D:DA:71:14"}]
/// }
/// ```
///
/// The values have the same types as the options of `capture`: a `LinkRequest`, a `RadioChoice`, and plans of
/// publishing.
package struct DaemonConfiguration: Hashable, Sendable {
  package struct Sensor: Hashable, Sendable {
    /// The name of the sensor kind in the file.
    package var name: String
    /// Stream and rate of a Polar sensor; `nil` for other kinds.
    package var stream: PolarSession.Settings?

    package init(_ name: String, stream: PolarSession.Settings? = nil) {
      self.name = name
      self.stream = stream
    }

    /// The kind to record; `nil` if the name is unknown. The file reader rejects unknown names.
    var kind: AnySensorKind? { stream.map { AnySensorKind(.polar($0)) } ?? AnySensorKind(named: name) }
  }

  package struct Device: Hashable, Sendable {
    /// The device's name, also used as its folder's name.
    package var name: String
    package var address: DeviceAddress
    package var sensor: Sensor
    package var format = TableFormat.csv
    /// Link parameters to request.
    package var link = LinkRequest()
    /// Index in `radios` of the radio that serves the device; `nil` for any radio.
    package var radio: Int?
  }

  /// A radio, and the maximum number of devices that it serves.
  package struct Radio: Hashable, Sendable {
    package var choice = RadioChoice()
    /// Maximum number of devices; `nil` for no limit.
    package var links: Int?

    package init(_ choice: RadioChoice = RadioChoice(), links: Int? = nil) {
      (self.choice, self.links) = (choice, links)
    }

    /// The name in the file: the adapter or the transport; `nil` for the first adapter that is up.
    package var name: String? { choice.adapter ?? choice.transport?.description }

    /// Returns whether the text names this radio. Addresses may differ in case.
    fileprivate func isNamed(_ text: String) -> Bool {
      guard let name else { return false }
      if let adapter = choice.adapter, let own = AdapterName(adapter) { return AdapterName(text) == own }
      return name == text
    }
  }

  /// The directory that contains the device folders.
  package var directory: String
  package var devices: [Device]
  /// The radios, in the file's order; at least one.
  package var radios = [Radio()]
  /// The plan for publishing the captures; `nil` to publish nothing.
  package var publishing: PublishRun.Plan?
  /// The plan for publishing to Home Assistant; `nil` to publish nothing.
  package var homeAssistant: HomePlan?
  /// Time after which a device's capture ends and its next capture starts.
  package var newCaptureAfter = Duration.seconds(24 * 3600)
  /// Interval at which data is synced to disk.
  package var syncInterval = Duration.seconds(1)
  package var retention = Retention()
  /// Address and port of an HTTP server for Prometheus; `nil` for no server.
  package var metrics: (host: String, port: UInt16)? {
    get { metricsHost.map { ($0, metricsPort) } }
    set { (metricsHost, metricsPort) = (newValue?.host, newValue?.port ?? 0) }
  }
  /// The socket for `ringtap status`; `nil` for the default.
  package var statusSocket: String?
  private var metricsHost: String?
  private var metricsPort: UInt16 = 0

  package init(directory: String, devices: [Device]) {
    self.directory = directory
    self.devices = devices
  }

  /// The recording jobs of the devices.
  package var jobs: [DaemonJob] { devices.map { DaemonJob($0, homeAssistant: homeAssistant) } }

  /// The errors of an invalid file, sorted by line.
  package struct Invalid: Error, Hashable, CustomStringConvertible {
    package struct Problem: Hashable, Sendable {
      package var line: Int
      package var text: String

      package init(line: Int, text: String) {
        self.line = line
        self.text = text
      }
    }

    package let path: String
    package let problems: [Problem]

    package init(path: String, problems: [Problem]) {
      self.path = path
      self.problems = problems
    }

    package var description: String {
      problems.map { "\(path):\($0.line): \($0.text)" }.joined(separator: "\n")
    }
  }

  /// Reads and validates a configuration file.
  ///
  /// - Parameters:
  ///   - path: the file's path, for messages.
  ///   - secret: reads a password file.
  package init(
    _ octets: [UInt8], path: String, secret: (String) throws -> String = BrokerOptions.secret
  ) throws(Invalid) {
    var reader: ConfigurationReader
    do throws(ConfigurationReader.NoJSON) { reader = try ConfigurationReader(octets) } catch {
      throw Invalid(path: path, problems: [Invalid.Problem(line: error.line, text: error.text)])
    }
    self.init(directory: "", devices: [])
    read(&reader, secret)
    let problems = reader.finish()
    guard problems.isEmpty else { throw Invalid(path: path, problems: problems) }
  }

  /// Maximum size of a file in bytes.
  private static let byteCountLimit = 1 << 20

  /// Reads and validates the file at a path.
  ///
  /// - Throws: `Failure` with all errors, one per line, in the format of compilers.
  package init(file path: String) throws {
    let octets = try failing { () throws(SystemError) in
      try WrittenFile.octets(of: path, limit: Self.byteCountLimit)
    }
    do throws(Invalid) { self = try DaemonConfiguration(octets, path: path) } catch {
      let lines = error.problems.map { "\(path):\($0.line): \($0.text.printable)" }
      throw Failure((["the configuration is invalid"] + lines).joined(separator: "\n"))
    }
  }

  // MARK: Reading

  private mutating func read(_ reader: inout ConfigurationReader, _ secret: (String) throws -> String) {
    directory = reader.text("directory") ?? reader.missing("directory", "the directory for captures", "")
    if let hours = reader.number("newCaptureHours", 0.01...24 * 366) {
      newCaptureAfter = .seconds(hours * 3600)
    }
    if let seconds = reader.number("syncSeconds", 1...3600) { syncInterval = .seconds(seconds) }
    retention.maximumAge = reader.number("keepDays", 0.001...36_600).map { .seconds($0 * 86_400) }
    retention.maximumByteCount = reader.number("keepGigabytes", 0.000_001...1e6).map { Int($0 * 1e9) }
    retention.minimumFreeByteCount = reader.number("keepFreeGigabytes", 0...1e6).map { Int($0 * 1e9) }
    statusSocket = reader.text("statusSocket")
    if let text = reader.text("metrics") {
      metrics = Self.place(text)
      if metrics == nil {
        reader.note("metrics", "'\(text)' is not an address and port such as 127.0.0.1:9469")
      }
    }
    publishing = reader.section("publish") { reader in Self.publishing(&reader, secret) }
    homeAssistant = reader.section("homeAssistant") { reader in Self.homeAssistant(&reader, secret) }
    radios = Self.radios(&reader)
    devices = reader.objects("devices") { reader in Device(&reader, radios) }
    if devices.isEmpty { reader.note("devices", "no devices are listed: there is nothing to record") }
    checkNames(&reader)
    guard reader.has("publish") else { return }
    for (index, device) in devices.enumerated() where device.format != .csv {
      reader.note("devices/\(index)/format", "format must be csv: only text tables can be published")
    }
  }

  private static func radios(_ reader: inout ConfigurationReader) -> [Radio] {
    let one = reader.section("radio", radio)
    let several = reader.objects("radios") { reader in radio(&reader) }
    guard reader.has("radios") else { return [one ?? Radio()] }
    if reader.has("radio") { reader.note("radios", "radios: give radio or radios, not both") }
    if several.isEmpty {
      reader.note("radios", "radios: no radios are listed: leave radios out to use any adapter")
    }
    for (place, radio) in several.enumerated() where several.count > 1 {
      guard let name = radio.name else {
        reader.note("radios/\(place)", "radios: each of several needs an adapter or a transport")
        continue
      }
      if several.prefix(place).contains(where: { $0.isNamed(name) }) {
        let key = radio.choice.adapter == nil ? "transport" : "adapter"
        reader.note("radios/\(place)/\(key)", "radios: \(name) appears twice")
      }
    }
    return several.isEmpty ? [Radio()] : several
  }

  private static func radio(_ reader: inout ConfigurationReader) -> Radio {
    let section = "radio"
    var radio = RadioChoice()
    radio.adapter = reader.parsed("adapter", of: section) { $0 }
    radio.mode =
      reader.parsed("mode", of: section) { try choice($0, of: RadioChoice.Mode.self) } ?? radio.mode
    radio.transport = reader.parsed("transport", of: section, RadioChoice.transport)
    let links = reader.whole("links", 1...64)
    do { try radio.validate() } catch { reader.note("\(section): \(error)") }
    return Radio(radio, links: links)
  }

  private static func publishing(
    _ reader: inout ConfigurationReader, _ secret: (String) throws -> String
  ) -> PublishRun.Plan? {
    let section = "publish"
    let broker = broker(
      &reader, section, prefix: BrokerAddress.defaultPrefix, "mqtts://ward@broker.example/fleet", secret)
    let name = reader.parsed("as", of: section, FleetName.checked)
    let backlog = reader.ranged("backlog", of: section, ByteCount.atLeast(.fourKilobytes))
    let certificates = reader.parsed("ca", of: section) { $0 }
    return broker.map {
      // `DaemonPublisher` sets its own time limits.
      PublishRun.Plan(
        $0, as: name, backlog: backlog ?? .gigabyte, patience: .seconds(1), certificates: certificates)
    }
  }

  private static func homeAssistant(
    _ reader: inout ConfigurationReader, _ secret: (String) throws -> String
  ) -> HomePlan? {
    let section = "homeAssistant"
    let broker = broker(
      &reader, section, prefix: HomePlan.defaultPrefix, "mqtts://ward@broker.example", secret)
    let certificates = reader.parsed("ca", of: section) { $0 }
    return broker.map { HomePlan($0, certificates: certificates) }
  }

  private static func broker(
    _ reader: inout ConfigurationReader, _ section: String, prefix: String, _ example: String,
    _ secret: (String) throws -> String
  ) -> BrokerAddress? {
    let address = reader.parsed("to", of: section) { try BrokerOptions.address($0, prefix: prefix) }
    let password = reader.parsed("password-file", of: section, secret)
    guard reader.has("to") else { return reader.missing("to", "the broker, such as \(example)", nil) }
    guard let address else { return nil }
    do { return try BrokerOptions.broker(address, password: password) } catch {
      reader.note("password-file", "\(section): \(error)")
      return nil
    }
  }

  /// Parses a value that is given by its name.
  fileprivate static func choice<Value: CaseIterable & RawRepresentable<String>>(
    _ text: String, of type: Value.Type
  ) throws -> Value {
    guard let value = Value(rawValue: text) else {
      let names = Value.allCases.map(\.rawValue).joined(separator: ", ")
      throw Failure("'\(text)' is not one of \(names)")
    }
    return value
  }

  private func checkNames(_ reader: inout ConfigurationReader) {
    for (index, device) in devices.enumerated() {
      for earlier in devices.prefix(index) {
        if earlier.name == device.name {
          reader.note("devices/\(index)/name", "two devices are named \(device.name)")
        }
        if earlier.address == device.address {
          reader.note("devices/\(index)/address", "\(device.address) appears twice")
        }
      }
    }
  }

  /// Parses `127.0.0.1:9469` or `[::1]:9469`.
  private static func place(_ text: String) -> (host: String, port: UInt16)? {
    guard let colon = text.lastIndex(of: ":"), let port = UInt16(text[text.index(after: colon)...]), port > 0
    else { return nil }
    var host = text[..<colon]
    if host.first == "[", host.last == "]" { host = host.dropFirst().dropLast() }
    return host.isEmpty ? nil : (String(host), port)
  }
}

extension DaemonConfiguration.Device {
  fileprivate init(_ reader: inout ConfigurationReader, _ radios: [DaemonConfiguration.Radio]) {
    let name = reader.text("name") ?? reader.missing("name", "the name of the device's folder", "?")
    if !Self.isFolderName(name) {
      reader.note("name", "'\(name)' is not a folder name: use letters, digits, '-', '_' and '.'")
    }
    let type: AddressType =
      reader.choice("addressType", ["public", "random"]) == "random" ? .random : .public
    var address: DeviceAddress?
    if let text = reader.text("address") {
      address = DeviceAddress(text, type: type)
      if address == nil {
        reader.note("address", "'\(text)' is not a device address such as 70:CB:0D:00:A1:B2")
      }
    } else {
      _ = reader.missing("address", "such as 70:CB:0D:00:A1:B2", "")
    }
    self.name = name
    self.address = address ?? DeviceAddress(bits: 0, type: type)
    sensor = Self.sensor(&reader)
    if reader.choice("format", ["csv", "npy"]) == "npy" { format = .npy }
    link = reader.section("link") { reader in Self.link(of: name, &reader) } ?? LinkRequest()
    guard let text = reader.text("adapter") else { return }
    radio = radios.firstIndex { $0.isNamed(text) }
    guard radio == nil else { return }
    let names = radios.compactMap(\.name)
    reader.note(
      "adapter",
      names.isEmpty
        ? "adapter: name '\(text)' in radio or radios, too"
        : "adapter: '\(text)' is not one of the file's radios: \(names.joined(separator: ", "))")
  }

  private static func link(of name: String, _ reader: inout ConfigurationReader) -> LinkRequest? {
    let section = "link of \(name)"
    var link = LinkRequest()
    link.interval = reader.ranged("interval", of: section, LinkOptions.interval)
    link.latency = reader.ranged("latency", of: section, LinkOptions.latencies.parse)
    link.supervisionTimeout = reader.ranged(
      "supervision-timeout", of: section, LinkOptions.supervisionTimeouts.parse
    ).map(LinkOptions.units(ofMilliseconds:))
    link.phy = reader.parsed("phy", of: section) {
      try DaemonConfiguration.choice($0, of: LinkOptions.PHY.self).phy
    }
    link.dataLength = reader.ranged("data-length", of: section, LinkOptions.dataLengths.parse)
    if let fault = link.fault { reader.note("\(section): \(fault)") }
    return link
  }

  private static func sensor(_ reader: inout ConfigurationReader) -> DaemonConfiguration.Sensor {
    let names = AnySensorKind.names
    let name =
      reader.has("sensor")
      ? reader.choice("sensor", names) : reader.missing("sensor", names.joined(separator: ", "), nil)
    return DaemonConfiguration.Sensor(name ?? names[0], stream: name == "polar" ? stream(&reader) : nil)
  }

  private static func stream(_ reader: inout ConfigurationReader) -> PolarSession.Settings {
    let type: PolarMeasurementType =
      switch reader.choice("stream", ["ecg", "acc", "ppg"]) {
      case "acc"?: .accelerometer
      case "ppg"?: .ppg
      default: .ecg
      }
    return PolarSession.Settings(type, sampleRate: reader.whole("rate", 1...1000).map { UInt16($0) })
  }

  /// Returns whether the name is neither `.` nor `..`, and has no character that is special in a shell, a URL
  /// or another file system.
  private static func isFolderName(_ name: String) -> Bool {
    guard (1...64).contains(name.utf8.count), name.first != ".", name.first != "-" else { return false }
    return name.unicodeScalars.allSatisfy { scalar in
      scalar.isASCII && (scalar.properties.isAlphabetic || ("0"..."9").contains(scalar))
        || scalar == "-" || scalar == "_" || scalar == "."
    }
  }
}

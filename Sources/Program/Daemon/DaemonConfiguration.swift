import BLESensors
package import BLEWire
package import Recording
package import SensorSessions

/// The validated configuration file of `ringtap daemon`.
///
/// ```json
/// {
///   "directory": "/var/lib/ringtap/captures",
///   "radio": {"adapter": "hci0", "mode": "auto"},
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
    package var link = Options()
  }

  /// Command-line options by their names without `--`, in order of appearance. The command-line parser
  /// validates them.
  ///
  /// Options with the same values are equal, regardless of their lines.
  package struct Options: Hashable, Sendable {
    package struct Option: Hashable, Sendable {
      package var name: String
      package var value: String
      /// The line in the file.
      package var line: Int

      package var arguments: [String] { ["--" + name, value] }
    }

    package var options: [Option] = []
    /// Line in the file where the options start.
    package var line = 1

    package init() {}

    package var arguments: [String] { options.flatMap(\.arguments) }

    package static func == (one: Options, other: Options) -> Bool { one.arguments == other.arguments }

    package func hash(into hasher: inout Hasher) { hasher.combine(arguments) }
  }

  /// The directory that contains the device folders.
  package var directory: String
  package var devices: [Device]
  package var radio = Options()
  /// The broker and its connection options; empty to publish nothing.
  package var publishing = Options()
  /// The Home Assistant broker and its connection options; empty to publish nothing.
  package var homeAssistant = Options()
  /// Time after which a device's capture ends and the next one starts.
  package var newCaptureAfter = Duration.seconds(24 * 3600)
  /// How often data is synced to disk.
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
  /// - Parameter path: the file's path, for messages.
  package init(_ octets: [UInt8], path: String) throws(Invalid) {
    var reader: ConfigurationReader
    do throws(ConfigurationReader.NoJSON) { reader = try ConfigurationReader(octets) } catch {
      throw Invalid(path: path, problems: [Invalid.Problem(line: error.line, text: error.text)])
    }
    self.init(directory: "", devices: [])
    read(&reader)
    let problems = reader.finish()
    guard problems.isEmpty else { throw Invalid(path: path, problems: problems) }
  }

  // MARK: Reading

  private mutating func read(_ reader: inout ConfigurationReader) {
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
    publishing = reader.options("publish", ["to", "as", "backlog", "ca", "password-file"])
    homeAssistant = reader.options("homeAssistant", ["to", "ca", "password-file"])
    radio = reader.options("radio", ["adapter", "mode", "transport"])
    devices = reader.objects("devices") { reader in Device(&reader) }
    if devices.isEmpty { reader.note("devices", "no devices are listed: there is nothing to record") }
    checkNames(&reader)
    checkPublishing(&reader)
    checkBroker("homeAssistant", homeAssistant, "mqtts://ward@broker.example", &reader)
  }

  private func checkBroker(
    _ key: String, _ options: Options, _ example: String, _ reader: inout ConfigurationReader
  ) {
    guard reader.has(key), !options.arguments.contains("--to") else { return }
    reader.note(key, "\"to\" is missing: the broker, such as \(example)")
  }

  private func checkPublishing(_ reader: inout ConfigurationReader) {
    checkBroker("publish", publishing, "mqtts://ward@broker.example/fleet", &reader)
    guard reader.has("publish") else { return }
    for (index, device) in devices.enumerated() where device.format != .csv {
      reader.note("devices/\(index)/format", "format must be csv: only text tables can be published")
    }
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
  fileprivate init(_ reader: inout ConfigurationReader) {
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
    link = reader.options(
      "link", ["interval", "latency", "supervision-timeout", "phy", "data-length"])
  }

  private static func sensor(_ reader: inout ConfigurationReader) -> DaemonConfiguration.Sensor {
    let names = AnySensorKind.named.map(\.name)
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

  /// Whether the name is neither `.` nor `..`, and has no character that is special in a shell, a URL or
  /// another file system.
  private static func isFolderName(_ name: String) -> Bool {
    guard (1...64).contains(name.utf8.count), name.first != ".", name.first != "-" else { return false }
    return name.unicodeScalars.allSatisfy { scalar in
      scalar.isASCII && (scalar.properties.isAlphabetic || ("0"..."9").contains(scalar))
        || scalar == "-" || scalar == "_" || scalar == "."
    }
  }
}

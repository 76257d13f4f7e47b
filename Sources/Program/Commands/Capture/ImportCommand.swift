import ArgumentParser
import BLEDissector
import BLELinux
import BLEWire
import CaptureTools
import CommandKit
import JSONText
import Recording
import SensorSessions

/// `ringtap import LOG -o DIR`: converts a packet log into captures.
struct ImportCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "import",
    abstract: "Convert a packet log to captures.",
    discussion: """
      Reads btsnoop, pcap, pcapng and PacketLogger files, optionally compressed, and writes the captures \
      that recording the same devices would have produced, with the log's times: the tables of each sensor, \
      and session.json with links, gaps and losses. If there are several devices, each has a directory named \
      after its address.

      Attributes are identified by a discovery in the log, on any link to the device. Without one, they are \
      identified by --attributes, by an earlier connection of ringtap, or by the format of their values: a \
      ring's frames, heart rates and Polar's frames are recognised unless other packets contradict. \
      Attributes recognised only by their values are reported as "known by payload only". session.json lists \
      how each attribute was identified.

      The messages between a ring and its host are in messages.ndjson, one per line in the format of \
      `ringtap ring decode`; the ring's stored data, battery levels and measurements become tables in \
      history, as `ringtap ring sync` writes them. session.json counts the messages by kind, and unknown \
      ones by command.

      EXAMPLES
        ringtap import btsnoop_hci.log -o walk
        ringtap import phone.pcapng.gz -o walk --attributes attributes.json
            attributes.json is the output of `ringtap gatt ADDRESS --json`, or has
            lines such as 0x0012 2a37
        ringtap import btsnoop_hci.log -o walk --json | jq .streams

      `ringtap analyse`, `convert` and `report` accept a log directly. Exit status: 1 if something could not \
      be read, 3 if data is lost: packets that the log's writer dropped or truncated, malformed values, or \
      samples missing by the sensor's clock.
      """)

  @Argument(help: ArgumentHelp("The packet log.", valueName: "log"))
  var log: String

  @Option(name: [.short, .long], help: ArgumentHelp("The directory to write.", valueName: "directory"))
  var output: String

  @Option(help: ArgumentHelp("A file with handles and types of the device's attributes.", valueName: "file"))
  var attributes: String?

  @OptionGroup(title: "Logs from the air") var air: AirKeyOptions

  @Flag(help: "The ring's clock is in UTC (default: as in the log, else this machine's time zone).")
  var utc = false

  @Flag(help: "Print the session.json of each capture.")
  var json = false

  func validate() throws {
    if log == "-" { throw ValidationError("a log is read twice: give a file, not -") }
  }

  func run() async throws {
    let told = try attributes.map { try AttributeFile.read($0) } ?? []
    let (log, output, keys, utc) = (log, output, air.keys, utc)
    let outcome = try await Interruption.cancelling {
      var importing = LogImport(log, into: output, attributes: told)
      importing.keys = keys
      importing.calendar = utc ? .utc : nil
      importing.fallbackCalendar = .local
      importing.knownDevices = KnownDevices.standardFolder.map { KnownDevices(in: $0) { Console.note($0) } }
      do throws(LogImport.Failure) { return try importing.run { Console.progress($0) } } catch {
        if case .interrupted = error { throw CancellationError() }
        throw Failure(error)
      }
    }
    if Console.isErrorTerminal { Console.progress("") }
    for capture in outcome.captures { try show(capture) }
    if !outcome.others.isEmpty {
      let count = outcome.others.count
      Console.note(
        "the log has no known sensor values of \(count) other \(count == 1 ? "device" : "devices")")
    }
    for remark in outcome.remarks { Console.note(remark) }
    for problem in outcome.problems { Console.note(problem) }
    if !outcome.problems.isEmpty { throw ExitCode.failure }
    try CaptureText.end(lost: outcome.captures.reduce(0) { $0 + $1.report.lost.total })
  }

  private func show(_ capture: LogImport.Capture) throws {
    guard json else {
      try Console.print(CaptureText.summary(capture.report, capture.directory))
      if let text = PayloadKnowledge(capture.report.origin).text { try Console.print("  " + text) }
      let messages = capture.directory + "/messages.ndjson"
      if Files.exists(messages) { try Console.print("  messages  \(messages)") }
      let history = capture.directory + "/history"
      return Files.exists(history) ? try Console.print("  ring history  \(history)") : ()
    }
    var line = JSONLine()
    capture.report.encode(into: &line)
    try Console.write(line.octets)
  }
}

/// A user's list of a device's attributes: lines of `ringtap gatt --json`, or lines with a handle and a type.
enum AttributeFile {
  private static let limit = 4 << 20

  static func read(_ path: String) throws -> [(handle: AttributeHandle, uuid: BluetoothUUID)] {
    let octets = try failing { () throws(SystemError) in try WrittenFile.octets(of: path, limit: limit) }
    var attributes: [(AttributeHandle, BluetoothUUID)] = []
    for (index, line) in octets.split(separator: UInt8(ascii: "\n")).enumerated() {
      let text = String(decoding: line, as: UTF8.self)
      guard !text.allSatisfy(\.isWhitespace), !text.hasPrefix("#") else { continue }
      guard let found = text.hasPrefix("{") ? try? attribute(Array(line)) : attribute(text) else {
        throw Failure(
          "\(path): line \(index + 1) is not an attribute such as 0x0012 2a37, nor a line of `ringtap gatt "
            + "--json`"
        )
      }
      if let attribute = found { attributes.append(attribute) }
    }
    return attributes
  }

  private typealias Attribute = (AttributeHandle, BluetoothUUID)

  private static func attribute(_ text: String) -> Attribute?? {
    let words = text.split(whereSeparator: \.isWhitespace)
    guard words.count == 2, let uuid = BluetoothUUID(words[1]) else { return nil }
    let digits = words[0].hasPrefix("0x") ? words[0].dropFirst(2) : words[0]
    guard let handle = UInt16(digits, radix: words[0].hasPrefix("0x") ? 16 : 10), handle > 0 else {
      return nil
    }
    return .some((AttributeHandle(handle), uuid))
  }

  /// Parses a line of `ringtap gatt --json`.
  ///
  /// - Returns: an inner `nil` if the line describes no characteristic or descriptor.
  private static func attribute(_ line: [UInt8]) throws -> Attribute?? {
    let document = try JSONDocument(line)
    guard let uuid = document["uuid"]?.text.flatMap({ BluetoothUUID($0) }),
      let type = document["type"]?.text
    else { return nil }
    guard type == "characteristic" || type == "descriptor" else { return .some(nil) }
    let place = type == "characteristic" ? "valueHandle" : "handle"
    guard let handle = document[place]?.integer(UInt16.self), handle > 0 else { return nil }
    return .some((AttributeHandle(handle), uuid))
  }
}

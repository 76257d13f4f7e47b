import ArgumentParser
import BLEDissector
import BLELinux
import BLEWire
import CaptureTools
import CommandKit
import JSONText
import Recording
import SensorSessions

/// `ringtap import LOG -o DIR`: a packet log as a capture.
struct ImportCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "import",
    abstract: "Convert a packet log to captures.",
    discussion: """
      Reads btsnoop, pcap, pcapng and PacketLogger files, also compressed, and writes what a recording of the same devices would \
      have left: the tables of each sensor, session.json with links, gaps and what was lost, the log's times. What one device said \
      becomes one capture; several become one each, in directories with their addresses as names.

      Which attribute is which is known by discovery in the log, on any link to the device; else by --attributes, by an earlier \
      connection of ringtap, or by the form of the values: a ring's frames, heart rates and Polar's frames are told by \
      it, unless something else in the log contradicts. What only the values tell is printed as "known by payload only"; \
      session.json says how each was known.

      What a ring and its host said to each other is in messages.ndjson, a line each as `ringtap ring decode` has it; what the \
      ring had stored, its battery and its measurements are tables in history, as `ringtap ring sync` writes them. \
      session.json counts the messages by kind, and those that nobody knows by their command.

      EXAMPLES
        ringtap import btsnoop_hci.log -o walk
        ringtap import phone.pcapng.gz -o walk --attributes attributes.json
            where attributes.json is what `ringtap gatt ADDRESS --json` printed, or
            has lines such as 0x0012 2a37
        ringtap import btsnoop_hci.log -o walk --json | jq .streams

      `ringtap analyse`, `convert` and `report` take a log as it is. Exit status: 1 where something could not be read, 3 where something is
      lost: packets that the log's writer dropped or cut, values that are malformed, samples that are missing by the sensor's clock.
      """)

  @Argument(help: ArgumentHelp("The packet log.", valueName: "log"))
  var log: String

  @Option(name: [.short, .long], help: ArgumentHelp("The directory of the capture.", valueName: "directory"))
  var output: String

  @Option(help: ArgumentHelp("Handles and types of the device's attributes.", valueName: "file"))
  var attributes: String?

  @OptionGroup(title: "Logs from the air") var air: AirKeyOptions

  @Flag(help: "A ring's clock is set to UTC; by what the log tells, else this machine's zone, if not given.")
  var utc = false

  @Flag(help: "Print session.json of each capture.")
  var json = false

  func validate() throws {
    if log == "-" { throw ValidationError("a log is read twice: give a file") }
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
        "of \(count) other \(count == 1 ? "device" : "devices") the log has no values of a sensor that is known"
      )
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
      if Files.exists(messages) { try Console.print("  what was said  \(messages)") }
      let history = capture.directory + "/history"
      return Files.exists(history) ? try Console.print("  what the ring had stored  \(history)") : ()
    }
    var line = JSONLine()
    capture.report.encode(into: &line)
    try Console.write(line.octets)
  }
}

/// What a person knows of a device's attributes: lines of `ringtap gatt --json`, or a handle and a type in each.
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
          "\(path): line \(index + 1) is no attribute; it looks like 0x0012 2a37, or is one of `ringtap gatt --json`"
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

  /// - Returns: `nil` inside for a line that tells no value's type.
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

import ArgumentParser
import BLEDissector
import BLELinux
import BLEPacketLog
import BLEWire
import CommandKit
import FoundationEssentials

extension LogCommand {
  struct Show: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "show",
      abstract: "Print the packets of a log: HCI, L2CAP, SMP, ATT and sensor data.",
      discussion: """
        EXAMPLES
          ringtap log show packets.btsnoop
              each packet in btmon's format: '<' to the controller, '>' from it

          ringtap log show packets.btsnoop --brief --time absolute
              one line per packet: number, time, direction ('<' to the
              controller, '>' from it, '=' note), link, contents

          ringtap log show packets.btsnoop --att-opcode notification --attribute 2a37
              the heart rates

          ringtap log show packets.btsnoop --since 12.5 --until 14 --context 3
              a second and a half; packets around each match, '--' between groups

          ringtap log show packets.btsnoop --json | jq 'select(.att.opcode==27)'
              one object per line: index, timeNs, direction, packetType, adapter,
              connectionHandle; opcode, event, subevent and status, with names;
              l2cap, smp; att with opcode, handle, uuid, value and, in decoded, the
              decoded value in the format of 'ringtap decode'; parameters of
              commands, events, signals and SMP by name, with units at the key's
              end (connectionIntervalMs, maxTxTimeUs, txPowerDbm), words in a second
              key (roleName); unnamed data as bytes

          ringtap log show packets.btsnoop --follow
              continues as the log grows, also when another file replaces it, until
              Ctrl-C

          adb exec-out cat /sdcard/btsnoop_hci.log | ringtap log show -
              reads standard input

          ringtap log show sniffer.pcapng --ltk 7f62c053f104a5bbe68b1d896a2ed49c
              the traffic that a sniffer heard on the air (link types 192, 251, 256,
              272), as HCI packets of the central's host; in JSON, 'air' has channel,
              rssi, eventCounter, crcGood, isRetransmission, isDecrypted. The keys of
              a legacy pairing in the log are derived automatically

        Reads btsnoop (1001, 1002 as from Android, 2001 as from btmon -w), pcap, pcapng and Apple's \
        PacketLogger, optionally compressed with gzip or zstd. If a log ends within a record, the packets \
        before are shown and the exit status is 1. btmon's notes between the packets (newIndex, systemNote, \
        controlOpen …) are shown too.

        On a terminal, output is coloured unless NO_COLOR is set, and paged with $PAGER, else less.
        """)

    @Argument(help: "The log; '-' for standard input.")
    var file: String

    @Flag(help: "Print one JSON object per line.")
    var json = false

    @Flag(help: "Print one line per packet, cut to the terminal's width.")
    var brief = false

    @Option(
      help: """
        Times: relative (seconds since the log's start), absolute (UTC, in the format of --since) or delta \
        (seconds since the packet shown before).
        """)
    var time: PacketPrinter.Times = .relative

    @Flag(name: [.customShort("x"), .customLong("hex")], help: "Print each packet's bytes, too.")
    var hex = false

    @OptionGroup(title: "Which packets") var selection: LogSelection

    @OptionGroup(title: "Logs from the air") var air: AirKeyOptions

    @Flag(help: "Continue as the file grows.")
    var follow = false

    @Flag(help: "Do not start a pager.")
    var noPager = false

    @Option(help: "Colour: auto (on a terminal), always or never.")
    var color: ColorChoice = .auto

    enum ColorChoice: String, ExpressibleByArgument, CaseIterable { case auto, always, never }

    func run() throws {
      let isPaged = !noPager && !json && !follow && (file == "-" || Files.exists(file))
      let output = LogOutput(isPaged: isPaged)
      defer { output.finish() }
      Confinement.filterFiles()
      do {
        var log = try air.open(file)
        let isEmpty = try show(&log, output)
        if let problem = log.problem { throw Failure("\(problem)") }
        if let remark = log.remark ?? log.airReport()?.remark {
          Console.note("\(log.name): \(remark)")
        } else if isEmpty {
          let none =
            log.recordCount == 1
            ? "the only packet does not match" : "none of the \(counted(log.recordCount, "packet")) match"
          Console.note("\(log.name): \(none)")
        }
        if log.isForeign { throw ExitCode.failure }
      } catch let failure as Failure {
        // Print the message before the pager ends.
        Console.note(failure.message)
        throw ExitCode.failure
      }
    }

    func validate() throws {
      if json, brief { throw ValidationError("--brief does not go with --json, which has a line per packet") }
      if json, time != .relative { throw ValidationError("--time does not go with --json; see timeNs") }
      if time == .delta, selection.context > 0 {
        throw ValidationError("--time delta does not go with --context: use relative or absolute")
      }
    }

    private var style: PacketPrinter.Style {
      if json { return .json }
      return switch color {
      case .always: .coloredText
      case .never: .text
      case .auto: LogOutput.wantsColor ? .coloredText : .text
      }
    }

    /// Shows the packets of a log.
    ///
    /// - Returns: true if no packet was shown.
    private func show(_ log: inout LogReader, _ output: LogOutput) throws -> Bool {
      var decoder = PacketDecoder()
      let printer = PacketPrinter(
        style: style, isBrief: brief, showsBytes: hex, times: time, columns: output.columns)
      var view = try PacketView(selection.filter(), printer, context: selection.context)
      var progress = LogProgress(log.isCompressed ? [] : [file], beside: .packets)
      defer { progress.finish() }
      let rest = follow ? try WakeEvent() : nil
      while true {
        // Check this before reading, because the last record may arrive just before the file is replaced.
        let isReplaced = follow && log.isReplaced
        var isMore = true
        while isMore {
          isMore = log.read(to: follow ? .growing : .final) { Self.show($0, &decoder, &view) }
          // Show the valid records before an error.
          try output.write(view.octets)
          view.removeAll()
          progress.update(log.byteCount, records: log.recordCount)
        }
        guard let rest, log.problem == nil else { return view.isEmpty }
        if isReplaced {
          log = try air.open(file)
          Console.note("\(file) was replaced; continuing with the new one")
        } else {
          // An interval of 0.2 s is fast enough for a human reader.
          rest.pause(milliseconds: 200)
        }
      }
    }

    private static func show(
      _ record: borrowing PacketRecord, _ decoder: inout PacketDecoder, _ view: inout PacketView
    ) {
      view.note(record.time)
      if record.type == nil {
        if record.note != nil || record.header.air != nil { view.take(note: record) }
      } else {
        decoder.decode(record) { packet in view.take(packet) }
      }
    }
  }
}

extension PacketPrinter.Times: ExpressibleByArgument {}

/// The destination of a log's lines: standard output, or a pager on a terminal.
final class LogOutput {
  static var isTerminal: Bool { StandardStream.output.isTerminal }

  /// Whether to use colours, by the convention of https://no-color.org.
  static var wantsColor: Bool {
    let environment = ProcessInfo.processInfo.environment
    return isTerminal && environment["NO_COLOR", default: ""].isEmpty && environment["TERM"] != "dumb"
  }

  /// Maximum line length in characters; `nil` for no limit.
  let columns = Terminal.outputColumns

  private let pager: ReadingCommand?

  init(isPaged: Bool) {
    // As in git, the pager shows colours, and exits immediately if the text fits on one screen.
    pager =
      isPaged && Self.isTerminal
      ? Self.pagerCommand.flatMap { ReadingCommand("LESS=\"${LESS-FRX}\"; export LESS; " + $0) } : nil
  }

  func write(_ octets: [UInt8]) throws(Console.WriteError) {
    if octets.isEmpty { return }
    guard let pager else { return try Console.write(octets) }
    do throws(SystemError) { try pager.write(octets.span) } catch {
      throw Console.WriteError(error)
    }
  }

  /// Waits until the user leaves the pager.
  func finish() {
    pager?.finish()
  }

  /// The pager: `$PAGER`, by default `less`; `nil` if the variable is empty or the pager is not installed.
  private static var pagerCommand: String? {
    let environment = ProcessInfo.processInfo.environment
    let command = environment["PAGER"] ?? "less"
    let program = command.split(separator: " ").first.map(String.init) ?? "cat"
    guard program != "cat" else { return nil }
    let folders =
      program.contains("/") ? [""] : (environment["PATH"] ?? "").split(separator: ":").map { "\($0)/" }
    return folders.contains { FileManager.default.isExecutableFile(atPath: $0 + program) } ? command : nil
  }
}

/// The progress line of a long log, on standard error if it is a terminal.
struct LogProgress {
  /// The data that is printed on standard output at the same time. There is no progress line if packets go to
  /// the same terminal.
  enum Output { case packets, nothing }

  /// Total size of all logs in bytes, if known.
  private let byteCount: UInt64?
  private var lastShown: UInt64 = 0
  private let isShown: Bool

  /// Creates a progress line.
  ///
  /// - Parameter paths: the files that are read; empty if their total size is unknown.
  init(_ paths: [String], beside output: Output) {
    isShown = Console.isErrorTerminal && (output == .nothing || !LogOutput.isTerminal)
    var sum: UInt64 = 0
    for path in paths {
      sum += UInt64(Files.byteCount(of: path) ?? 0)
    }
    byteCount = sum > 0 ? sum : nil
  }

  /// Updates the progress line.
  ///
  /// - Parameter bytesRead: bytes of all logs read so far.
  mutating func update(_ bytesRead: Int, records: @autoclosure () -> Int) {
    let bytesRead = UInt64(bytesRead)
    guard isShown, bytesRead >= lastShown + 4_000_000 else { return }
    lastShown = bytesRead
    let part = byteCount.map { " of \($0 / 1_000_000)" } ?? ""
    Console.progress("\(bytesRead / 1_000_000)\(part) MB, \(counted(records(), "packet"))")
  }

  /// Clears the line.
  func finish() {
    if isShown, lastShown > 0 { Console.progress("") }
  }
}

/// The options of `log show` that select packets. A packet must match every given option.
struct LogSelection: ParsableArguments {
  @Option(help: "Start: seconds from the log's start, or a date such as 2026-11-21T06:50:00Z (UTC).")
  var since: String?

  @Option(help: "End, in the same format.")
  var until: String?

  @Option(help: "Only packets of this adapter, such as hci0.")
  var adapter: String?

  @Option(help: "Only packets of this connection handle, decimal or with 0x.")
  var handle: String?

  @Option(help: "Only this device: its links, and commands and events with its address.")
  var address: String?

  @Option(help: "Only this direction: tx (to the controller) or rx (from it).")
  var direction: Direction?

  @Option(help: "Only this layer: hci, l2cap, att, smp, or ll in air logs; may be repeated.")
  var layer: [PacketFilter.Layer] = []

  @Option(help: "Only this ATT opcode by number or name (0x1b, 'Write Request', notification); repeatable.")
  var attOpcode: [String] = []

  @Option(help: "Only this attribute: handle (0x0012) or UUID (2a37, or in full); may be repeated.")
  var attribute: [String] = []

  @Option(help: "Only packets that contain these bytes, such as 'a1 04'.")
  var contains: String?

  @Option(help: "Number of packets to show around each match.", in: NumberRange(0...1_000_000))
  var context = 0

  enum Direction: String, ExpressibleByArgument, CaseIterable {
    case tx, rx
    case hostToController, controllerToHost

    var value: HCIDirection {
      switch self {
      case .tx, .hostToController: .hostToController
      case .rx, .controllerToHost: .controllerToHost
      }
    }
  }

  func validate() throws { _ = try filter() }

  func filter() throws -> PacketFilter {
    var filter = PacketFilter()
    filter.since = try since.map { try Self.instant($0, "--since") }
    filter.until = try until.map { try Self.instant($0, "--until") }
    filter.adapter = try adapter.map { text in
      let digits = text.hasPrefix("hci") ? text.dropFirst(3) : text[...]
      return try Self.required(UInt16(digits), "--adapter: '\(text)' is not like hci0")
    }
    filter.handle = try handle.map { text in
      let number = try Self.required(Self.number(text), "--handle: '\(text)' is not a number")
      guard number <= 0x0FFF else { throw ValidationError("--handle: a connection handle has 12 bits") }
      return ConnectionHandle(number)
    }
    filter.address = try address.map { text in
      try Self.required(DeviceAddress(text), "--address: '\(text)' is not like 70:CB:0D:00:A1:B2")
    }
    filter.direction = direction?.value
    filter.layers = layer
    filter.attOpcodes = try attOpcode.map { text in
      try Self.required(PacketFilter.attOpcode(text), "--att-opcode: no opcode '\(text)'")
    }
    filter.attributes = try attribute.map { text in
      try Self.required(
        PacketFilter.Attribute(text), "--attribute: '\(text)' is neither 0x and a handle nor a UUID")
    }
    filter.pattern =
      try contains.map { text in
        try Self.required([UInt8](hex: text), "--contains: '\(text)' is not pairs of hexadecimal digits")
      } ?? []
    return filter
  }

  private static func required<Value>(_ value: Value?, _ message: String) throws -> Value {
    guard let value else { throw ValidationError(message) }
    return value
  }

  private static func number(_ text: String) -> UInt16? {
    text.hasPrefix("0x") ? UInt16(text.dropFirst(2), radix: 16) : UInt16(text)
  }

  private static func instant(_ text: String, _ option: String) throws -> PacketFilter.Instant {
    try required(
      PacketFilter.Instant(text),
      "\(option): '\(text)' is neither seconds nor a date such as 2026-11-21T06:50:00Z")
  }
}

extension PacketFilter.Layer: ExpressibleByArgument {}

import ArgumentParser
import BLELinux
import BLEPacketLog
import BLEWire
import CommandKit
import FoundationEssentials
import Recording

extension LogCommand {
  /// The command `ringtap log convert …`.
  struct Convert: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "convert",
      abstract: "Convert packet logs to another format; merge, split and anonymise them.",
      discussion: """
        EXAMPLES
          ringtap log convert packets.btsnoop --output packets.pcapng
              for Wireshark: nanoseconds, an interface for each adapter, drops

          ringtap log convert phone.log.gz watch.pklg --output both.pcapng
              two logs merged by time; gzip and zstd are decompressed

          ringtap log convert packets.btsnoop --output one.btsnoop \\
              --connection 70:CB:0D:00:A1:B2
              only the connections with one peer (or with one handle: 0x0040)

          ringtap log convert packets.btsnoop --output connections \\
              --split connection --format pcapng
              a file for each connection, in a folder

          ringtap log convert packets.btsnoop --output report.btsnoop --anonymise
              consistently replaces addresses, names and keys

          ringtap log convert sniffer.pcapng --output packets.pcapng --ltk 7f62…d49c
              the traffic that a sniffer heard, as HCI packets of the central's host

        Reads btsnoop (1001, 1002, 2001), pcap, pcapng (link types 187, 201, 254; air logs 192, 251, 256, \
        272) and PacketLogger, recognised by content. Without --format the extension of --output selects the \
        format: .btsnoop, .log, .pcapng or .pcap; logs of the Linux monitor keep their type. A damaged log \
        is converted up to the damage; the exit status is 1. Only --force replaces an existing file.
        """)

    enum Format: String, ExpressibleByArgument, CaseIterable {
      case btsnoop
      case btsnoopHCI = "btsnoop-hci"
      case btsnoopMonitor = "btsnoop-monitor"
      case pcapng
      case pcap
    }

    enum Split: String, ExpressibleByArgument, CaseIterable {
      case connection
    }

    @Argument(help: ArgumentHelp("The logs to read; '-' for standard input.", valueName: "log"))
    var inputs: [String] = []

    @Option(
      name: [.short, .customLong("output")],
      help: ArgumentHelp("The log to write; '-' for standard output.", valueName: "file"))
    var outputName: String?

    @OptionGroup var overwriting: OverwriteOptions

    @Option(help: ArgumentHelp("The format to write.", valueName: "format"))
    var format: Format?

    @Option(help: ArgumentHelp("Only records of this handle or peer.", valueName: "handle|address"))
    var connection: String?

    @Flag(
      help: ArgumentHelp(
        "Replace addresses, names and keys, and blank unknown data; the log is read three times."))
    var anonymise = false

    @Option(help: "Write one file per connection into the folder --output.")
    var split: Split?

    @OptionGroup(title: "Logs from the air") var air: AirKeyOptions

    /// The output path, after the arguments have been validated.
    private var output: String { outputName ?? "-" }

    mutating func validate() throws {
      guard let output = outputName else {
        throw ValidationError(
          "--output is missing: ringtap log convert IN ... --output OUT; all other names are input logs")
      }
      if inputs.isEmpty { throw ValidationError("give a log to read") }
      if format == nil, try named(output, split: split) == nil {
        throw ValidationError("'\(output)' has no known extension: add --format")
      }
      if inputs.count(where: { $0 == "-" }) > 1 { throw ValidationError("'-' can be given only once") }
      if anonymise, inputs.contains("-") {
        throw ValidationError("--anonymise reads its input three times, so it cannot be '-'")
      }
      if split != nil, output == "-" { throw ValidationError("--split needs the name of a folder") }
      if let connection, Self.choice(connection) == nil {
        throw ValidationError("'\(connection)' is neither a handle nor an address")
      }
    }

    func run() throws {
      if split == nil {
        try overwriting.check(output, "--output", inputs: inputs)
      } else {
        try overwriting.check(folder: output, "--output")
      }
      var anonymiser: LogAnonymiser?
      if anonymise { anonymiser = try learn() }
      let sources = try inputs.map { try air.open($0) }
      let writer = PacketLogWriter(
        format(of: sources), comment: anonymise ? "addresses, names and keys are replaced" : "")
      let sink: any RecordSink =
        split == nil
        ? try FileSink(path: output, writer, overwriting.existing)
        : try SplitSink(folder: output, suffix: suffix, writer, overwriting.existing)
      var hidden = 0
      try forEachRecord(of: sources) { record in
        guard anonymiser != nil else { return try sink.write(record) }
        if let rewritten = anonymiser?.rewrite(record) { try sink.write(rewritten) } else { hidden += 1 }
      }
      let problems = sources.compactMap(\.problem)
      let complete = sources.filter { $0.problem == nil }
      let hasFailed = !problems.isEmpty || complete.contains(where: \.isForeign)
      // If no log could be read, keep an existing output file.
      if !hasFailed || sources.contains(where: { $0.recordCount > 0 }) { try sink.finish() }
      if split == nil {
        tell(sink.leftOut, "record does not fit the format", "records do not fit the format")
      } else {
        tell(sink.leftOut, "record belongs to no connection", "records belong to no connection")
      }
      tell(hidden, "note may contain personal data", "notes may contain personal data")
      if let blanked = anonymiser?.blankedRecords, blanked > 0 {
        Console.note(
          "\(counted(blanked, "record has", "records have")) parts that may contain personal data; these were blanked, keeping "
            + "their length")
      }
      for problem in problems { Console.note("\(problem)") }
      for log in complete {
        if let remark = log.remark ?? log.airReport()?.remark { Console.note("\(log.name): \(remark)") }
      }
      if hasFailed { throw ExitCode.failure }
    }

    private func tell(_ count: Int, _ one: String, _ several: String) {
      if count > 0 {
        Console.note("\(counted(count, one, several)) and \(count == 1 ? "was" : "were") left out")
      }
    }

    /// Runs the two passes of anonymising that precede writing. The first pass finds addresses, names and
    /// keys; the second finds the fragments that contain them.
    private func learn() throws -> LogAnonymiser {
      var anonymiser = LogAnonymiser()
      for _ in 0..<2 {
        anonymiser.startOver()
        try forEachRecord(of: inputs.map { try air.open($0) }) { record in
          anonymiser.learn(record)
          guard !anonymiser.isFull else {
            throw Failure(
              "too many addresses, names or keys; nothing was written: anonymise parts of the log, for "
                + "example with --connection")
          }
        }
      }
      anonymiser.startOver()
      return anonymiser
    }

    /// Merges the logs by time. The records of one log keep their order, even if their timestamps decrease.
    private func forEachRecord(
      of sources: [LogReader], _ body: (StoredPacketRecord) throws -> Void
    ) throws {
      var filter = connection.flatMap(Self.choice).map { ConnectionFilter($0) }
      var adapters = AdapterNumbers()
      var lost: UInt32 = 0
      var progress = LogProgress(
        sources.contains { $0.isCompressed } ? [] : sources.map(\.path), beside: .nothing)
      defer { progress.finish() }
      while let log = sources.indices.filter({ sources[$0].nextTime != nil })
        .min(by: { earlier(sources[$0], sources[$1]) }), var record = sources[log].next()
      {
        record.header.adapter = adapters.number(of: record.header.adapter, inLog: log)
        // Add the drops before a skipped record to the drops before the next selected record.
        let drops = UInt32(clamping: UInt64(lost) + UInt64(record.header.drops))
        let isTaken = record.withRecord { filter?.takes($0) ?? true }
        lost = isTaken ? 0 : drops
        progress.update(
          sources.reduce(0) { $0 + $1.byteCount }, records: sources.reduce(0) { $0 + $1.recordCount })
        record.header.drops = drops
        if isTaken { try body(record) }
      }
    }

    private func earlier(_ a: LogReader, _ b: LogReader) -> Bool {
      guard let a = a.nextTime, let b = b.nextTime else { return false }
      return a < b
    }

    // MARK: Arguments

    static func choice(_ text: String) -> ConnectionFilter.Choice? {
      if let address = DeviceAddress(text) { return .peer(address) }
      let isHexadecimal = text.lowercased().hasPrefix("0x")
      let digits = isHexadecimal ? text.dropFirst(2) : text[...]
      guard let number = UInt16(digits, radix: isHexadecimal ? 16 : 10), number <= 0x0EFF else { return nil }
      return .handle(ConnectionHandle(number))
    }

    /// Returns the format for the extension of the file name.
    private func named(_ path: String, split: Split?) throws -> Format? {
      if split != nil { return .btsnoop }
      switch URL(filePath: path).pathExtension.lowercased() {
      case "btsnoop", "log", "snoop", "cfa": return .btsnoop
      case "pcapng", "ntar": return .pcapng
      case "pcap", "cap": return .pcap
      default: return nil
      }
    }

    private func format(of sources: [LogReader]) -> PacketLogWriter.Format {
      let isMonitorLog = sources.contains { $0.isMonitorLog }
      let linkType: LinkType = isMonitorLog ? .linuxMonitor : .h4WithDirection
      switch format {
      case .btsnoop: return .btsnoop(.h4)
      case .btsnoopHCI: return .btsnoop(.unencapsulated)
      case .btsnoopMonitor: return .btsnoop(.monitor)
      case .pcapng: return .pcapng(linkType)
      case .pcap: return .pcap(linkType)
      case nil: break
      }
      switch try? named(output, split: split) {
      case .pcapng: return .pcapng(linkType)
      case .pcap: return .pcap(linkType)
      default: return .btsnoop(isMonitorLog ? .monitor : .h4)
      }
    }

    private var suffix: String {
      switch format {
      case .pcapng: "pcapng"
      case .pcap: "pcap"
      default: "btsnoop"
      }
    }
  }
}

/// Assigns adapter numbers in merged logs, so that the links of each log stay separate: if another log
/// already uses an adapter number, the first free number replaces it.
private struct AdapterNumbers {
  private struct Adapter: Hashable {
    var log: Int
    var number: UInt16
  }

  private var numbers: [Adapter: UInt16] = [:]
  private var taken: Set<UInt16> = []

  /// Returns the adapter's number in the merged log. 0xFFFF (no adapter) is kept.
  mutating func number(of adapter: UInt16, inLog log: Int) -> UInt16 {
    if adapter == 0xFFFF { return adapter }
    let key = Adapter(log: log, number: adapter)
    if let known = numbers[key] { return known }
    let number = taken.contains(adapter) ? (0..<0xFFFF).first { !taken.contains($0) } ?? adapter : adapter
    taken.insert(number)
    numbers[key] = number
    return number
  }
}

/// An output for converted records.
private protocol RecordSink: AnyObject {
  var leftOut: Int { get }
  func write(_ record: StoredPacketRecord) throws
  func finish() throws
}

/// Writes to one file or to standard output.
private final class FileSink: RecordSink {
  private static let pieceByteCount = 65_536

  private var writer: PacketLogWriter
  /// The file; `nil` for standard output.
  private var file: OutputFile?
  private var octets: [UInt8] = []

  init(path: String, _ writer: PacketLogWriter, _ existing: Files.Existing) throws {
    self.writer = writer
    if path != "-" {
      file = try failing { () throws(SystemError) in
        try OutputFile(creating: path, ifExists: existing == .replace ? .replace : .refuse)
      }
    }
    self.writer.start(into: &octets)
  }

  var leftOut: Int { writer.leftOut }

  func write(_ record: StoredPacketRecord) throws {
    record.withRecord { writer.append($0, to: &octets) }
    if octets.count >= Self.pieceByteCount { try flush() }
  }

  /// Moves the file to its final name.
  func finish() throws {
    writer.finish(into: &octets)
    try flush()
    try failing { () throws(SystemError) in try file?.finish() }
  }

  private func flush() throws {
    if file == nil { try Console.write(octets) }
    try failing { () throws(SystemError) in
      try file?.append(octets)
      try file?.flush()
    }
    octets.removeAll(keepingCapacity: true)
  }
}

/// Writes a file per connection. Records without a connection are counted and skipped.
private final class SplitSink: RecordSink {
  /// Maximum number of open files: the maximum number of tracked connections.
  private static let maximumFiles = ConnectionTracker.maximumConnections

  private let folder: String
  private let suffix: String
  private let writer: PacketLogWriter
  private let existing: Files.Existing
  private var tracker = ConnectionTracker()
  /// Open files, least recently used first.
  private var open: [(connection: LogConnection, sink: FileSink)] = []
  private(set) var leftOut = 0
  /// Number of files that were closed to make room, for each connection.
  private var closed: [Int: Int] = [:]

  init(
    folder: String, suffix: String, _ writer: PacketLogWriter, _ existing: Files.Existing
  ) throws {
    self.folder = folder
    self.suffix = suffix
    self.writer = writer
    self.existing = existing
    try failing { () throws(SystemError) in try Files.createDirectory(folder) }
  }

  func write(_ record: StoredPacketRecord) throws {
    let connections = record.withRecord { tracker.connections(of: $0) }
    if connections.isEmpty { leftOut += 1 }
    for connection in connections {
      let entry = try take(connection)
      try entry.sink.write(record)
      open.append(entry)
    }
  }

  func finish() throws {
    for index in open.indices { try open[index].sink.finish() }
    open.removeAll()
  }

  private func take(_ connection: LogConnection) throws -> (
    connection: LogConnection, sink: FileSink
  ) {
    if let index = open.lastIndex(where: { $0.connection == connection }) { return open.remove(at: index) }
    if open.count == Self.maximumFiles {
      let oldest = open.removeFirst()
      try oldest.sink.finish()
      closed[oldest.connection.number, default: 0] += 1
    }
    let part = closed[connection.number].map { "-part\($0 + 1)" } ?? ""
    let peer = connection.peer.map { "-" + "\($0)".replacing(":", with: "") } ?? ""
    let name =
      "connection-\(connection.number)-\(connection.handle.rawValue.handleText)\(peer)\(part).\(suffix)"
    return (connection, try FileSink(path: "\(folder)/\(name)", writer, existing))
  }
}

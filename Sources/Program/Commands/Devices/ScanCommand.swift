import ArgumentParser
import BLEDissector
import BLEHost
import BLELinux
import BLEWire
import CaptureTools
import CommandKit
import JSONText
import Recording
import RingTap
import SensorSessions
import Synchronization

/// The command `ringtap scan`.
struct ScanCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "scan",
    abstract: "Scan for advertising devices.",
    discussion: """
      Prints each advertiser when it is first seen, and again when more is known about it, such as the name \
      in its scan response. Scanning is always switched off when the command ends. Needs CAP_NET_RAW, or \
      CAP_NET_ADMIN if bluetoothd runs.

      A public address is followed by the company to which the IEEE assigned it, in parentheses, if udev's \
      hardware database is installed; with --json it is "vendor".

      Up to 4,096 advertisers are tracked, with 32 services and the data of 16 companies and services each, \
      and up to 256 are queued for printing. Everything beyond these limits is counted. At the end, the \
      counts are reported on standard error and, with --json, in a last object with the event "end"; with \
      --verbose they are reported even if they are 0.

      With --output each advertisement is recorded, for Wireshark and `ringtap log show`, and sensor data in \
      advertisements is written to tables, one capture per sensor: heart rates of Polar, Xiaomi and Amazfit \
      devices, temperatures of CORE and of sensors with service data. No connections are made.

      EXAMPLES
        ringtap scan --duration 5
        ringtap scan --output gym --duration 3600
        ringtap scan --name '^R02_' --json
        ringtap scan --service 180d --duplicates | ts
      """)

  @OptionGroup var radio: AdapterOptions

  @Flag(help: "Send no scan requests; names in scan responses are then missing.")
  var passive = false

  @Flag(help: "Send scan requests; this is the default.")
  var active = false

  @Flag(help: "Print every report, not only new information.")
  var duplicates = false

  @Option(help: "Only advertisers with this service UUID, such as 180d.")
  var service: String?

  @Option(help: ArgumentHelp("Only advertisers whose name matches.", valueName: "regex"))
  var name: String?

  @Option(
    help: ArgumentHelp("How long to scan (default: until Ctrl-C).", valueName: "seconds"), in: .duration)
  var duration: Double?

  @Option(
    name: [.short, .long],
    help: ArgumentHelp("Record all advertisements into this directory.", valueName: "directory"))
  var output: String?

  @Flag(help: "Print one JSON object per line.")
  var json = false

  /// The progress of a scan and of the output of its results.
  private final class Progress: Sendable {
    /// Number of advertisers that were printed or filtered out.
    let shown = Atomic(0)
    let isEnding = Atomic(false)
    let report = Mutex<ScanReport?>(nil)
  }

  /// Whether the reader of standard output is still reading when a signal arrives.
  private enum Reader: Sendable { case reads, sleeps }

  /// Time in which the reader may read further advertisers after a signal. Advertisers that are then not
  /// printed count as `lost`.
  private static let patience = Duration.milliseconds(300)

  func validate() throws {
    if passive, active { throw ValidationError("give --passive or --active, not both") }
    if let service, BluetoothUUID(service) == nil {
      throw ValidationError("'\(service)' is not a UUID; give 4 digits such as 180d, or all 36 characters")
    }
    if let name, (try? Regex(name)) == nil {
      throw ValidationError("'\(name)' is not a regular expression")
    }
  }

  func run() async throws {
    let queue = AdvertiserQueue()
    let progress = Progress()
    let recording = output.map { ScanRecording(in: $0) }
    try await recording?.start()
    let (heard, reader) = try await Interruption.cancelling {
      let scan = Task { try await hear(into: queue, progress, recording) }
      let printed = OneShot<Result<Reader, Console.WriteError>>()
      // Printing has its own task, so that a slow pipe does not block the receive thread.
      Task {
        do throws(Console.WriteError) { printed.set(.success(try await show(queue, progress))) } catch {
          // The reader has closed standard output, so the scan stops.
          scan.cancel()
          printed.set(.failure(error))
        }
      }
      return try await withTaskCancellationHandler {
        let result = await scan.result
        return (result, try await printed.get())
      } onCancel: {
        scan.cancel()
        Task {
          try? await Task.sleep(for: Self.patience)
          progress.isEnding.store(true, ordering: .relaxed)
          // Printing can block even after the check, on a stopped terminal or on a line longer than the
          // pipe's free space.
          try? await Task.sleep(for: Self.patience)
          printed.set(.success(.sleeps))
        }
      }
    }
    let recorded = await recording?.finish()
    if var report = progress.report.withLock({ $0 }) {
      report.lost = queue.added - progress.shown.load(ordering: .relaxed)
      try tell(report, reader)
    }
    try heard.get()
    try recorded?.tell()
  }

  private func hear(
    into queue: AdvertiserQueue, _ progress: Progress, _ recording: ScanRecording?
  ) async throws {
    defer { queue.finish() }
    var scanner = Scanner(
      kind: passive ? .passive : .active, duplicates: duplicates ? .reportAll : .reportOnce)
    if let recording { scanner.everyReport = { recording.take($0, at: $1) } }
    let scanning = scanner
    let duration = duration.map { Duration.seconds($0) }
    let radio = try await radio.open(links: 0)
    do {
      _ = try await failing { () async throws(HostError) in
        try await scanning.run(on: radio.adapter, for: duration, into: queue) { report in
          progress.report.withLock { $0 = report }
        }
      }
      await radio.end()
    } catch {
      await radio.end()
      throw error
    }
  }

  /// Prints until the queue ends, or until the scan must end and the reader is blocked.
  private func show(_ queue: AdvertiserQueue, _ progress: Progress) async throws(Console.WriteError) -> Reader
  {
    for await advertiser in queue.advertisers {
      if matches(advertiser) {
        while !StandardStream.output.isWritable(within: 100) {
          if progress.isEnding.load(ordering: .relaxed) { return .sleeps }
        }
        try show(advertiser)
      }
      progress.shown.add(1, ordering: .relaxed)
      if progress.isEnding.load(ordering: .relaxed) { return .sleeps }
    }
    return .reads
  }

  private func tell(_ report: ScanReport, _ reader: Reader) throws {
    let isTold = radio.verbose || !report.isComplete
    if isTold || report.malformed > 0 { Console.note(ScanText.note(report)) }
    // Malformed reports are common, and the user cannot act on them, so malformed reports alone cause no
    // "end" object.
    guard isTold, json, reader == .reads else { return }
    try Console.json { line in
      line.member("event", "end")
      line.members(of: report)
    }
  }

  private func matches(_ advertiser: Advertiser) -> Bool {
    if let service, let uuid = BluetoothUUID(service), !advertiser.services.contains(uuid) { return false }
    guard let name else { return true }
    guard let regex = try? Regex(name), let candidate = advertiser.name else { return false }
    return candidate.firstMatch(of: regex) != nil
  }

  private func show(_ advertiser: Advertiser) throws(Console.WriteError) {
    if json {
      try Console.json { $0.members(of: advertiser, Self.vendors) }
    } else {
      try Console.print(text(advertiser))
    }
  }

  private static let vendors = VendorNames()

  private func text(_ advertiser: Advertiser) -> String {
    let shown = advertiser.identity ?? advertiser.address
    var text = "\(shown) \(shown.type.name)"
    if advertiser.identity != nil { text += " (now \(advertiser.address))" }
    text += advertiser.rssi.map { "  \($0) dBm" } ?? "  no RSSI"
    if let name = advertiser.name { text += "  \(name.printable)" }
    for uuid in advertiser.services {
      text += "  " + (UUIDNames.name(of: uuid).map { "\($0) (\(uuid.shortText))" } ?? uuid.shortText)
    }
    for (company, data) in advertiser.manufacturerData.sorted(by: { $0.key < $1.key }) {
      let digits = company.handleText
      let name = NumberNames.company(company).map { "\($0) (\(digits))" } ?? "company \(digits)"
      text += "  \(name): \(data.hexText)"
    }
    if let name = advertiser.appearance.flatMap({ NumberNames.appearance($0) }) { text += "  " + name }
    if let vendor = Self.vendors.name(of: shown) { text += "  (\(vendor.printable))" }
    if !advertiser.isConnectable { text += "  (not connectable)" }
    return text
  }
}

extension JSONLine {
  fileprivate mutating func members(of advertiser: Advertiser, _ vendors: VendorNames) {
    member("address", advertiser.address.description)
    member("addressType", advertiser.address.type.name)
    if let vendor = vendors.name(of: advertiser.identity ?? advertiser.address) { member("vendor", vendor) }
    if let identity = advertiser.identity {
      member("identityAddress", identity.description)
      member("identityAddressType", identity.type.name)
    }
    key("rssi")
    if let rssi = advertiser.rssi { value(rssi) } else { null() }
    key("name")
    if let name = advertiser.name { value(name) } else { null() }
    member("services") { line in
      for uuid in advertiser.services { line.value(uuid.description) }
    }
    member("serviceNames") { line in
      for uuid in advertiser.services {
        if let name = UUIDNames.name(of: uuid) { line.value(name) } else { line.null() }
      }
    }
    key("manufacturerData")
    object { line in
      for (company, data) in advertiser.manufacturerData.sorted(by: { $0.key < $1.key }) {
        line.member(company.handleText, hex: data.span)
      }
    }
    key("manufacturerNames")
    object { line in
      for company in advertiser.manufacturerData.keys.sorted() {
        if let name = NumberNames.company(company) { line.member(company.handleText, name) }
      }
    }
    key("serviceData")
    object { line in
      for (uuid, data) in advertiser.serviceData.sorted(by: { $0.key.description < $1.key.description }) {
        line.member(uuid.description, hex: data.span)
      }
    }
    if let power = advertiser.txPower { member("txPower", power) }
    if let appearance = advertiser.appearance {
      member("appearance", appearance)
      if let name = NumberNames.appearance(appearance) { member("appearanceName", name) }
    }
    if let flags = advertiser.flags { member("flags", flags) }
    member("connectable", advertiser.isConnectable)
    member("timeNs", advertiser.latest)
  }

  private mutating func member(_ name: String, _ elements: (inout JSONLine) -> Void) {
    member(name, array: elements)
  }
}

/// Records the advertisements of a scan. Writes a packet log during the scan and creates tables from it
/// afterwards.
final class ScanRecording: Sendable {
  private let directory: String
  private let file = Mutex<PacketLogFile?>(nil)

  private var path: String { directory + "/packets.pcapng" }

  /// Creates a recording.
  ///
  /// - Parameter directory: the directory, which must not contain a recording. A missing directory is
  ///   created.
  init(in directory: String) { self.directory = directory }

  func start() async throws {
    guard Files.names(in: directory).allSatisfy({ $0 == "." || $0 == ".." }) else {
      throw Failure("\(directory) already exists and is not empty; choose another --output")
    }
    let file = try await failing { () async throws(HostError) in
      do throws(SystemError) { try Files.createDirectory(directory) } catch { throw .system(error) }
      return try await PacketLogFile.start(path)
    }
    self.file.withLock { $0 = file }
  }

  /// Adds an advertising report to the packet log. Call this on the receive thread only.
  func take(_ report: borrowing AdvertisingReport, at time: ReceiveTime) {
    file.withLock { $0 }?.log(report, at: time)
  }

  /// Closes the packet log, and writes the log's sensor data into tables.
  func finish() async -> Outcome {
    guard let file = file.withLock({ $0.take() }) else { return Outcome(directory: directory) }
    var outcome = Outcome(directory: directory)
    outcome.log = await file.finish()
    guard outcome.log.packets > 0, outcome.log.failure == nil else { return outcome }
    let draft = directory + "/.tables"
    do throws(LogImport.Failure) {
      let imported = try await tables(into: draft).get()
      outcome.problems = imported.problems
      for capture in imported.captures { outcome.take(capture) }
      do throws(SystemError) { try Files.removeTree(draft) } catch { throw .output(error) }
    } catch {
      switch error {
      // A recording without sensor readings is not an error.
      case .noReadings: break
      case .interrupted: outcome.hasNoTables = true
      default: outcome.problems.append("\(error)")
      }
    }
    return outcome
  }

  /// Time limit for creating the tables after a signal. Reading a large log can take many seconds.
  private static let patience = Duration.milliseconds(300)

  private func tables(into draft: String) async -> Result<LogImport.Outcome, LogImport.Failure> {
    let path = path
    let importing = Task {
      Result { () throws(LogImport.Failure) in try LogImport(path, into: draft).run() }
    }
    do { return try await Interruption.leaving(after: Self.patience) { await importing.value } } catch {
      importing.cancel()
      return await importing.value
    }
  }

  struct Outcome {
    let directory: String
    var log = PacketLogFile.Outcome()
    var captures: [LogImport.Capture] = []
    var problems: [String] = []
    /// Whether tables are missing because a signal arrived before they were created.
    var hasNoTables = false

    init(directory: String) { self.directory = directory }

    /// Moves a device's tables into its directory.
    mutating func take(_ capture: LogImport.Capture) {
      var capture = capture
      let place = directory + "/" + capture.report.device.fileName
      do throws(SystemError) { try Files.rename(capture.directory, to: place) } catch {
        return problems.append("\(error)")
      }
      capture.directory = place
      captures.append(capture)
    }

    /// Prints a summary of the recording.
    ///
    /// - Throws: an error if the recording is incomplete.
    func tell() throws {
      Console.note("\(counted(log.packets, "report")) in \(directory)/packets.pcapng")
      for capture in captures {
        let name = capture.report.deviceName.map { $0.printable + " " } ?? ""
        let streams = capture.report.streams.filter { $0.samples > 0 }.map { "\($0.samples) \($0.name)" }
        Console.note(
          "\(name)\(capture.report.device): \(streams.joined(separator: ", ")) in \(capture.directory)")
      }
      if hasNoTables {
        Console.note(
          "interrupted before the tables were written; `ringtap import \(directory)/packets.pcapng -o "
            + "FOLDER` writes them"
        )
      }
      for problem in problems { Console.note(problem) }
      if let failure = log.failure { throw Failure(HostError.system(failure)) }
      guard problems.isEmpty else { throw ExitCode.failure }
      guard log.lost == 0 else {
        Console.note("\(counted(log.lost, "report was", "reports were")) not recorded: the disk was too slow")
        throw ExitCode(3)
      }
    }
  }
}

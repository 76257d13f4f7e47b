package import ArgumentParser
import BLEHost
import BLELinux
import BLEWire
import CommandKit
import Glibc
import JSONText
package import Recording

/// The command `ringtap log record`.
package struct LogRecordCommand: AsyncParsableCommand {
  package enum Format: String, CaseIterable, ExpressibleByArgument { case btsnoop, pcapng }

  package static let configuration = CommandConfiguration(
    commandName: "record",
    abstract: "Record the packets between the kernel and its Bluetooth controllers.",
    discussion: """
      Writes everything on the kernel's monitor channel to a log: HCI packets of all adapters, and the \
      monitor's notes. tshark and `ringtap log show` read the log, and btmon if it is btsnoop. Each record \
      is in the file half a second after it arrived, and on disk within a second. If the program is killed, \
      the file is complete up to its last record; --append removes a partial record left by a kill or a \
      power failure, and continues. Files are never overwritten. Needs CAP_NET_RAW.

      With --rotate-size, --rotate-time or --rotate-count the files are FILE.1, FILE.2 and so on: the newest \
      has the highest number, and files are never renamed. Each starts with a record of each present \
      adapter. --ring keeps the last few and deletes older ones. `ls -v FILE.*` lists them in order.

      With --capture, the packets are those of another running command that writes a packet log, from the \
      start to the end of that log. Use this if the kernel does not see the packets (--transport); it needs \
      no privilege. `ringtap extcap` does the same for Wireshark.

      EXAMPLES
        ringtap log record -o today.pcapng
        ringtap log record -o - | tshark -r -
        ringtap log record --capture walk -o - | ringtap log show -
        ringtap log record -o bt.btsnoop --rotate-size 10M --ring 5 --append

      Exit status: 0 done, 1 failed, 2 wrong usage, 3 packets were lost.
      """)

  @Option(name: [.short, .long], help: "The log to write; '-' for standard output.")
  package var output: String

  @Option(
    help: """
      The log's format: btsnoop with the monitor's own records (2001), or pcapng with nanoseconds (link type \
      254). The default is pcapng for the extension .pcapng, else btsnoop.
      """)
  var format: Format?

  @Option(help: "Only records of this adapter (hci0 or its address), and those of no adapter.")
  var adapter: String?

  @Option(
    help: ArgumentHelp(
      "The packets of a running command: its capture directory, its packet log or its process number.",
      valueName: "capture"))
  var capture: String?

  @Flag(help: "Repair the end of an existing log, and continue it.")
  var append = false

  @Option(
    help: ArgumentHelp("Start a new file before one exceeds this size: 500k, 10M, 1G.", valueName: "size"),
    transform: ByteCount.atLeast(.one))
  var rotateSize: ByteCount?

  @Option(
    help: ArgumentHelp("Start a new file after this time.", valueName: "seconds"), in: .duration)
  var rotateTime: Double?

  @Option(
    help: ArgumentHelp("Start a new file after this many packets.", valueName: "count"),
    in: .count)
  var rotateCount: Int?

  @Option(
    help: ArgumentHelp("Keep only this many files, the newest.", valueName: "count"), in: .count)
  var ring: Int?

  @Option(
    help: ArgumentHelp("End after this time.", valueName: "seconds"), in: .duration)
  var duration: Double?

  @Option(help: "End after this many packets.", in: .count)
  var count: Int?

  @Flag(help: "Print the report as one JSON object.")
  var json = false

  package init() {}

  package func validate() throws {
    _ = try adapter.map(RadioChoice.adapter)
    if capture != nil, adapter != nil {
      throw ValidationError("give --capture or --adapter, not both")
    }
    let isSeries = rotateSize != nil || rotateTime != nil || rotateCount != nil
    if ring != nil, !isSeries {
      throw ValidationError("--ring needs --rotate-size, --rotate-time or --rotate-count")
    }
    guard output == "-" else { return }
    if isSeries { throw ValidationError("standard output cannot be rotated; give a file") }
    if append { throw ValidationError("standard output cannot be continued; use the shell's >>") }
    if json { throw ValidationError("--json needs a file: standard output is the log") }
  }

  private func adapterIndex() throws -> UInt16? {
    guard let name = try adapter.map(RadioChoice.adapter) else { return nil }
    return try failing { () throws(HostError) in try KernelAdapter.index(of: name) }
  }

  package func run() async throws {
    let source =
      if let capture {
        LogRecording.Source.capture(try AnnouncedLog.find(capture).log)
      } else {
        LogRecording.Source.monitor(adapter: try adapterIndex())
      }
    try await record { LogRecording(source, to: $0) }
  }

  /// Records until a limit, an error or a signal ends the recording, and prints the report.
  ///
  /// - Parameter make: creates the recording with the files that the options describe.
  package func record(_ make: (LogFilePlan) throws -> LogRecording) async throws {
    var plan = LogFilePlan(path: output)
    plan.format = isPcapNG ? .pcapng : .btsnoop
    plan.existing = append ? .append : .fail
    plan.rotateByteCount = rotateSize?.value
    plan.rotateTime = rotateTime.map { .seconds($0) }
    plan.rotateCount = rotateCount
    plan.keptFiles = ring
    var recording = try make(plan)
    recording.duration = duration.map { .seconds($0) }
    recording.count = count
    let finished = recording
    let name = capture.map { "the packets of \($0)" } ?? adapter ?? "all adapters"
    let report = try await Interruption.cancelling {
      do throws(LogFileError) {
        return try await finished.run {
          ProcessRights.keep([])
          Console.note("recording \(name)   (Ctrl-C ends)")
        } progress: { progress in
          Console.progress(
            "\(progress.elapsed.components.seconds) s  \(counted(progress.records, "packet"))  "
              + "\(counted(progress.byteCount, "byte"))  \(progress.lost) lost   (Ctrl-C ends)")
        }
      } catch { throw Failure(error) }
    }
    if Console.isErrorTerminal { Console.progress("") }
    try finish(report)
  }

  private var isPcapNG: Bool { format.map { $0 == .pcapng } ?? output.hasSuffix(".pcapng") }

  private func finish(_ report: LogRecordingReport) throws {
    if report.repairedByteCount > 0 {
      Console.note("removed \(counted(report.repairedByteCount, "byte")) of a partial record from \(output)")
    }
    // The reader has closed the pipe.
    if output == "-", report.failure?.number == EPIPE { return }
    if json {
      var line = JSONLine()
      report.encode(into: &line)
      try Console.write(line.octets)
    } else if output == "-" {
      Console.note(text(report))
    } else {
      try Console.print(text(report))
    }
    if let failure = report.failure {
      let before =
        switch report.packets {
        case 0: ""
        case 1: "; the packet before that is in \(output)"
        default: "; the \(counted(report.packets, "packet")) before that are in \(output)"
        }
      throw Failure("\(failure)\(before)")
    }
    if report.lost.total > 0 { throw ExitCode(3) }
  }

  private func text(_ report: LogRecordingReport) -> String {
    let seconds = (report.endedAt - report.startedAt).seconds
    let lost = report.lost
    let loss =
      lost.total == 0
      ? "0 lost"
      : "\(lost.total) lost: kernel queue \(lost.kernelQueue), packet log \(lost.packetLog), disk \(lost.disk)"
    let files =
      report.files.count == 1
      ? report.files[0] : "\(counted(report.files.count, "file")) up to \(report.files.last ?? output)"
    return "\(counted(report.packets, "packet")), \(counted(report.byteCount, "byte")) in "
      + "\(NumberText.fixed(seconds, 1)) s in \(files); \(report.endReason); \(loss)"
  }
}

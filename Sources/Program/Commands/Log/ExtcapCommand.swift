import ArgumentParser
import BLEHost
import BLELinux
import BLEWire
import CommandKit
import FoundationEssentials
import Glibc
import Recording

/// `ringtap extcap`: the program that Wireshark runs to list interfaces and to capture from an interface.
///
/// Wireshark finds such programs in certain folders and passes them only its own options: `doc/extcap.4`.
package struct ExtcapCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "extcap",
    abstract: "Capture live in Wireshark and tshark.",
    discussion: """
      Once installed, Wireshark and tshark list an interface for each Bluetooth adapter, one for all of them \
      (ringtap-monitor; capturing needs CAP_NET_RAW), and one for each running command with a packet log, \
      such as a capture with --transport, whose packets the kernel does not see. Capturing from the latter \
      starts with the first packet of the log.

      EXAMPLES
        ringtap extcap --install
        tshark -D | grep ringtap
        tshark -i ringtap-hci0
        ringtap extcap --uninstall

      Wireshark itself uses the options that begin with --extcap, and --capture and --fifo.
      """,
    shouldDisplay: false)

  @Flag(help: "Create a link to this program in your Wireshark folders.")
  var install = false

  @Flag(help: "Remove the links.")
  var uninstall = false

  @Flag(help: "List the interfaces.")
  var extcapInterfaces = false

  @Option(help: ArgumentHelp("The interface for the other options.", valueName: "interface"))
  var extcapInterface: String?

  @Flag(help: "List the interface's link types.")
  var extcapDlts = false

  @Flag(help: "List the interface's options; the list is empty.")
  var extcapConfig = false

  @Flag(help: "Capture from the interface.")
  var capture = false

  @Option(help: ArgumentHelp("Write the packets to this pipe, as pcapng.", valueName: "pipe"))
  var fifo: String?

  @Option(help: .hidden)
  var extcapVersion: String?

  /// Capture filter; ignored, because libpcap cannot filter these link types.
  @Option(help: .hidden)
  var extcapCaptureFilter: String?

  @Option(help: .hidden)
  var extcapReloadOption: String?

  /// Returns whether Wireshark started this program. Wireshark passes its own options without a command.
  package static func isMeant(by arguments: [String]) -> Bool {
    arguments.contains { $0.hasPrefix("--extcap-") } && arguments.first?.hasPrefix("-") == true
  }

  func validate() throws {
    let jobs = [install, uninstall, extcapInterfaces, extcapDlts, extcapConfig, capture].count { $0 }
    // Wireshark passes its version alone to query the program's own options.
    guard jobs == 1 || jobs == 0 && extcapVersion != nil else {
      throw ValidationError("give one of --install, --uninstall, --extcap-interfaces and --capture")
    }
    if extcapDlts || extcapConfig || capture, extcapInterface == nil {
      throw ValidationError("--extcap-interface is missing")
    }
    if capture, fifo == nil { throw ValidationError("--fifo is missing") }
  }

  func run() async throws {
    if install { return try ExtcapFolders.install() }
    if uninstall { return try ExtcapFolders.uninstall() }
    if extcapInterfaces { return try listInterfaces() }
    if extcapDlts {
      return try Console.print(
        "dlt {number=254}{name=BLUETOOTH_LINUX_MONITOR}{display=Bluetooth Linux Monitor}")
    }
    if capture, let extcapInterface, let fifo { try await record(extcapInterface, fifo) }
  }

  // MARK: Interfaces

  private static let prefix = "ringtap-"
  private static let allAdapters = "monitor"

  private func listInterfaces() throws {
    var lines = ["extcap {version=\(Console.version)}{display=ringtap}"]
    // If the kernel has no Bluetooth, only running captures are listed.
    if let adapters = try? KernelAdapter.all() {
      lines.append(line(Self.allAdapters, "Bluetooth: all adapters"))
      lines += adapters.map { line($0.name, "Bluetooth: \($0.name) \($0.address)") }
    }
    lines += AnnouncedLog.all().map { line($0.name, "ringtap: \($0.text)") }
    try Console.print(lines.joined(separator: "\n"))
  }

  /// Formats an interface. Removes braces, because they end a value and cannot be escaped.
  private func line(_ name: String, _ text: String) -> String {
    "interface {value=\(Self.prefix)\(name)}{display=\(text.filter { $0 != "{" && $0 != "}" })}"
  }

  // MARK: Capture

  private func record(_ interface: String, _ fifo: String) async throws {
    guard interface.hasPrefix(Self.prefix) else {
      throw Failure("'\(interface)' is not an interface of ringtap")
    }
    let source = try source(String(interface.dropFirst(Self.prefix.count)))
    // Opening the pipe blocks until the pipe has a reader. Meanwhile, a signal ends the process immediately.
    try failing { () throws(SystemError) in try Files.becomeStandardOutput(fifo) }
    var plan = LogFilePlan(path: "-")
    plan.format = .pcapng
    let recording = LogRecording(source, to: plan)
    let report = try await Interruption.cancelling {
      do throws(LogFileError) {
        return try await recording.run(ready: { ProcessRights.keep([]) }, progress: { _ in })
      } catch {
        throw Failure(error)
      }
    }
    if let failure = report.failure {
      // The reader has closed the pipe. Unread packets do not count as lost.
      guard failure.number == EPIPE else { throw Failure(failure) }
      return
    }
    if report.lost.total > 0 {
      Console.note("\(counted(report.lost.total, "packet was", "packets were")) lost")
    }
  }

  private func source(_ name: String) throws -> LogRecording.Source {
    if name == Self.allAdapters { return .monitor(adapter: nil) }
    if name.hasPrefix("hci"), let index = UInt16(name.dropFirst(3)) { return .monitor(adapter: index) }
    guard let found = AnnouncedLog.all().first(where: { $0.name == name }) else {
      throw Failure("that capture has ended; reload the list of interfaces")
    }
    return .capture(found.log)
  }
}

/// The folders where Wireshark looks for a user's programs: up to version 4.0 in its configuration folder,
/// from 4.2 on beside its plug-ins.
enum ExtcapFolders {
  private static let name = "ringtap"

  private static func paths() throws -> [String] {
    let environment = ProcessInfo.processInfo.environment
    guard let home = environment["HOME"], !home.isEmpty else { throw Failure("HOME is not set") }
    let configuration = environment["XDG_CONFIG_HOME"].flatMap { $0.isEmpty ? nil : $0 } ?? home + "/.config"
    return [configuration + "/wireshark/extcap", home + "/.local/lib/wireshark/extcap"]
  }

  static func install() throws {
    guard let program = ProcessFacts.ownPath else { throw Failure("this program's path is unknown") }
    for folder in try paths() {
      let path = folder + "/" + name
      try failing { () throws(SystemError) in
        try Files.createDirectory(folder)
        if Files.target(ofLink: path) != nil { try Files.remove(path) }
        try Files.link(path, to: program)
      }
      try Console.print(path)
    }
  }

  static func uninstall() throws {
    for folder in try paths() {
      let path = folder + "/" + name
      guard Files.target(ofLink: path) != nil else { continue }
      try failing { () throws(SystemError) in try Files.remove(path) }
      try Console.print(path)
    }
  }
}

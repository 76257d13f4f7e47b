import BLELinux
import CommandKit
import FoundationEssentials

/// Where a log's lines go: standard output, or a pager on a terminal.
final class LogOutput {
  static var isTerminal: Bool { StandardStream.output.isTerminal }

  /// By the customs of terminals: https://no-color.org.
  static var wantsColor: Bool {
    let environment = ProcessInfo.processInfo.environment
    return isTerminal && environment["NO_COLOR", default: ""].isEmpty && environment["TERM"] != "dumb"
  }

  /// Characters that a line should not exceed; `nil` where lines are as long as they must.
  let columns = Terminal.outputColumns

  private let pager: ReadingCommand?

  init(isPaged: Bool) {
    // As git has it: colours, and where a screen is enough it ends and leaves the text there.
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

  /// Waits until the reader has left the pager.
  func finish() {
    pager?.finish()
  }

  /// `$PAGER`, else `less`; `nil` where it is none or is not there.
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

/// The line on a terminal's standard error that says how far a long log is.
struct LogProgress {
  /// What goes to standard output meanwhile: packets on the same terminal are progress enough.
  enum Output { case packets, nothing }

  /// Octets of all logs, where somebody knows how many come.
  private let byteCount: UInt64?
  private var bytesRead: UInt64 = 0
  private var lastShown: UInt64 = 0
  private let isShown: Bool

  /// - Parameter paths: of files whose octets are those that are read; empty where nobody knows how many come.
  init(_ paths: [String], beside output: Output) {
    isShown = Console.isErrorTerminal && (output == .nothing || !LogOutput.isTerminal)
    var sum: UInt64 = 0
    for path in paths {
      sum += UInt64(Files.byteCount(of: path) ?? 0)
    }
    byteCount = sum > 0 ? sum : nil
  }

  mutating func advance(_ count: Int, records: Int) {
    bytesRead += UInt64(count)
    guard isShown, bytesRead - lastShown >= 4_000_000 else { return }
    lastShown = bytesRead
    let part = byteCount.map { " of \($0 / 1_000_000)" } ?? ""
    Console.progress("\(bytesRead / 1_000_000)\(part) MB, \(records) packets")
  }

  /// Clears the line.
  func finish() {
    if isShown, lastShown > 0 { Console.progress("") }
  }
}

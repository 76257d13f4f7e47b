import BLELinux
import BLEWire
import CommandKit
import FoundationEssentials

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

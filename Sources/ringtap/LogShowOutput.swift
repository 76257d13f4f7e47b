import BLESystem
import Foundation
import Glibc

/// Where a log's lines go: standard output, or a pager on a terminal.
final class LogOutput {
  static var isTerminal: Bool { isatty(FileHandle.standardOutput.fileDescriptor) == 1 }

  /// By the customs of terminals: https://no-color.org.
  static var wantsColor: Bool {
    let environment = ProcessInfo.processInfo.environment
    return isTerminal && environment["NO_COLOR", default: ""].isEmpty && environment["TERM"] != "dumb"
  }

  /// Characters that a line should not exceed; `nil` where lines are as long as they must.
  let columns = Terminal.outputColumns

  private let pager: Process?
  private let handle: FileHandle

  init(isPaged: Bool) {
    guard isPaged, Self.isTerminal, let command = Self.pagerCommand, let pager = Self.start(command) else {
      self.pager = nil
      handle = .standardOutput
      return
    }
    self.pager = pager.process
    handle = pager.input
  }

  func write(_ octets: [UInt8]) throws(Console.Closed) {
    if octets.isEmpty { return }
    do {
      try handle.write(contentsOf: Data(octets))
    } catch { throw Console.Closed() }
  }

  /// Waits until the reader has left the pager.
  func finish() {
    guard let pager else { return }
    try? handle.close()
    pager.waitUntilExit()
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

  private static func start(_ command: String) -> (process: Process, input: FileHandle)? {
    let process = Process()
    process.executableURL = URL(filePath: "/bin/sh")
    process.arguments = ["-c", command]
    // As git has it: colours, and where a screen is enough it ends and leaves the text there.
    process.environment = ["LESS": "FRX"].merging(ProcessInfo.processInfo.environment) { $1 }
    let pipe = Pipe()
    process.standardInput = pipe
    guard (try? process.run()) != nil else { return nil }
    // Foundation starts it in a process group of its own, which may not read the terminal until it is in front.
    let child = process.processIdentifier
    if getpgid(child) != getpgrp() {
      tcsetpgrp(FileHandle.standardOutput.fileDescriptor, getpgid(child))
      kill(-getpgid(child), SIGCONT)
    }
    return (process, pipe.fileHandleForWriting)
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
      let attributes = try? FileManager.default.attributesOfItem(atPath: path)
      sum += (attributes?[.size] as? NSNumber)?.uint64Value ?? 0
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

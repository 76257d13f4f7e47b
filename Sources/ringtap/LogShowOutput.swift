import Foundation
import Glibc

/// Where a log's lines go: standard output, or a pager on a terminal.
final class LogOutput {
  static var isTerminal: Bool { isatty(FileHandle.standardOutput.fileDescriptor) == 1 }

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

  /// `$PAGER`, else `less`: it ends where a screen is enough and leaves the text there.
  private static var pagerCommand: String? {
    let environment = ProcessInfo.processInfo.environment
    if let pager = environment["PAGER"] { return pager.isEmpty || pager == "cat" ? nil : pager }
    let isThere = (environment["PATH"] ?? "").split(separator: ":").contains {
      FileManager.default.isExecutableFile(atPath: "\($0)/less")
    }
    return isThere ? "less -FRX" : nil
  }

  private static func start(_ command: String) -> (process: Process, input: FileHandle)? {
    let process = Process()
    process.executableURL = URL(filePath: "/bin/sh")
    process.arguments = ["-c", command]
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

/// The line on a terminal's standard error that says how far a long log is, where its text goes elsewhere.
struct LogProgress {
  private let byteCount: UInt64?
  private var bytesRead: UInt64 = 0
  private var lastShown: UInt64 = 0
  private let isShown: Bool

  /// - Parameter path: of a file whose octets are those that are read; `nil` where nobody knows how many come.
  init(_ path: String?) {
    isShown = Console.isErrorTerminal && !LogOutput.isTerminal
    let attributes = path.flatMap { try? FileManager.default.attributesOfItem(atPath: $0) }
    byteCount = (attributes?[.size] as? NSNumber)?.uint64Value
  }

  mutating func advance(_ count: Int, records: Int) {
    bytesRead += UInt64(count)
    guard isShown, bytesRead - lastShown >= 4_000_000 else { return }
    lastShown = bytesRead
    let part = byteCount.map { $0 > 0 ? " of \($0 / 1_000_000)" : "" } ?? ""
    Console.progress("\(bytesRead / 1_000_000)\(part) MB, \(records) packets")
  }

  /// Clears the line.
  func finish() {
    if isShown, lastShown > 0 { Console.progress("") }
  }
}

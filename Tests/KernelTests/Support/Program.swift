import Foundation
import Testing

/// A running program: what it writes is collected, and can be waited for.
final class Program: @unchecked Sendable {  // `condition` guards `state`
  enum Stream {
    case output, errors
  }

  struct Result {
    /// The exit status; 128 and the signal's number if a signal ended it.
    var status: Int32
    var output: String
    var errors: String

    var outputLines: [String] { output.split(separator: "\n").map(String.init) }
    var errorLines: [String] { errors.split(separator: "\n").map(String.init) }
  }

  /// It took too long, or ended before it did what was waited for.
  struct Failure: Error, CustomStringConvertible {
    var description: String
  }

  private struct State {
    var output = Data()
    var errors = Data()
    var openStreams = 2
    var status: Int32?
  }

  /// Enough for every step in a kernel whose system calls are slow.
  static let patience = Duration.seconds(30)

  let name: String
  private let process = Process()
  private let input = Pipe()
  private let condition = NSCondition()
  private var state = State()

  /// Starts it.
  ///
  /// - Parameter program: a path, or a name to look for in PATH.
  init(_ program: String, _ arguments: [String] = []) throws {
    name = ([program] + arguments).joined(separator: " ")
    process.executableURL = URL(filePath: try Self.path(of: program))
    process.arguments = arguments
    // No test teaches another one, nor its user's programs, where devices are.
    process.environment = ProcessInfo.processInfo.environment.merging(["RINGTAP_NO_REMEMBER": "1"]) { $1 }
    process.standardInput = input
    process.terminationHandler = { [weak self] process in
      let isSignal = process.terminationReason == .uncaughtSignal
      self?.change { $0.status = process.terminationStatus + (isSignal ? 128 : 0) }
    }
    let (output, errors) = (Pipe(), Pipe())
    process.standardOutput = output
    process.standardError = errors
    try process.run()
    collect(output.fileHandleForReading) { $0.output.append($1) }
    collect(errors.fileHandleForReading) { $0.errors.append($1) }
  }

  private static func path(of program: String) throws -> String {
    if program.contains("/") { return program }
    let folders = ProcessInfo.processInfo.environment["PATH"]?.split(separator: ":") ?? []
    let found = (folders + ["/usr/libexec/bluetooth"]).map { "\($0)/\(program)" }
      .first { FileManager.default.isExecutableFile(atPath: $0) }
    return try #require(found, "\(program) is not installed: Tools/install peers")
  }

  private func collect(_ handle: FileHandle, _ take: @escaping @Sendable (inout State, Data) -> Void) {
    Thread.detachNewThread { [self] in
      while true {
        let data = handle.availableData
        if data.isEmpty { break }
        change { take(&$0, data) }
      }
      // Foundation keeps the pipes of a program that has ended.
      try? handle.close()
      change { $0.openStreams -= 1 }
    }
  }

  private func change(_ body: (inout State) -> Void) {
    condition.lock()
    body(&state)
    condition.broadcast()
    condition.unlock()
  }

  // MARK: Waiting

  /// Waits until `body` gives something.
  private func wait<Value>(
    for what: String, within limit: Duration, _ body: (State) -> Value?
  ) throws -> Value {
    let end = ContinuousClock.now + limit
    condition.lock()
    defer { condition.unlock() }
    while true {
      if let value = body(state) { return value }
      let isOver = state.status != nil && state.openStreams == 0
      guard !isOver, waitForChange(until: end) else {
        throw Failure(
          description: """
            \(name): \(isOver ? "ended (status \(state.status ?? -1))" : "took longer than \(limit)") \
            before \(what)
            \(text(state.output))\(text(state.errors))
            """)
      }
    }
  }

  /// Waits for any change of `state`, with the lock. A condition knows only the wall clock, which a test may set: so it is
  /// asked for a second at a time.
  ///
  /// - Returns: `false` when it is too late.
  private func waitForChange(until end: ContinuousClock.Instant) -> Bool {
    condition.wait(until: Date(timeIntervalSinceNow: 1)) || ContinuousClock.now < end
  }

  /// Waits for a whole line.
  ///
  /// - Returns: the first that contains `text`.
  @discardableResult
  func line(
    on stream: Stream = .output, containing text: String, within limit: Duration = Program.patience
  ) throws -> String {
    try wait(for: "a line with '\(text)'", within: limit) { state in
      let data = stream == .output ? state.output : state.errors
      // Whole lines only: what follows the last line feed is not one yet.
      return self.text(data).split(separator: "\n", omittingEmptySubsequences: false).dropLast()
        .first { $0.contains(text) }.map(String.init)
    }
  }

  /// Waits for a question: a text that no line feed needs to follow.
  ///
  /// - Parameter times: how often it has come, at least.
  func question(
    containing text: String, times: Int = 1, within limit: Duration = Program.patience
  ) throws {
    _ = try wait(for: "'\(text)'", within: limit) { state in
      self.text(state.output).components(separatedBy: text).count > times ? true : nil
    }
  }

  /// Waits until the lines of its output are as wanted, and returns them.
  func outputLines(
    untilThey what: String, within limit: Duration = Program.patience, _ isMet: ([String]) -> Bool
  ) throws -> [String] {
    try wait(for: "its lines \(what)", within: limit) { state in
      let lines = self.text(state.output).split(separator: "\n").map(String.init)
      return isMet(lines) ? lines : nil
    }
  }

  /// Waits for its end.
  func finish(within limit: Duration = Program.patience) throws -> Result {
    try? input.fileHandleForWriting.close()
    return try wait(for: "its end", within: limit) { state in
      guard let status = state.status, state.openStreams == 0 else { return nil }
      return Result(status: status, output: self.text(state.output), errors: self.text(state.errors))
    }
  }

  // MARK: Acting

  var identifier: Int32 { process.processIdentifier }

  func send(_ signal: Int32) { kill(identifier, signal) }

  func type(_ line: String) throws {
    try input.fileHandleForWriting.write(contentsOf: Data((line + "\n").utf8))
  }

  /// Ends it at once; returns when the kernel has taken back what it held.
  func end() {
    try? input.fileHandleForWriting.close()
    condition.lock()
    defer { condition.unlock() }
    if state.status == nil { send(SIGKILL) }
    let end = ContinuousClock.now + Self.patience
    while state.status == nil {
      guard waitForChange(until: end) else {
        // Killed and still there: the kernel holds it. Its log then has where its tasks stand (sysrq w).
        if Way.isInTestKernel { try? Data("w".utf8).write(to: URL(filePath: "/proc/sysrq-trigger")) }
        Issue.record("\(name) does not go, though it was killed")
        return
      }
    }
  }

  private func text(_ data: Data) -> String { String(decoding: data, as: UTF8.self) }
}

import Foundation
import Testing

/// A running program. Tests can wait for its output and its end.
///
/// Each wait exists in two forms. The asynchronous form does not block a thread of Swift's pool. The
/// synchronous form traps on such a thread: it is for the main actor, whose thread is not in the pool, and
/// for a test's own threads.
package final class Program: @unchecked Sendable {  // `lock` guards `state`
  package enum Stream: Sendable {
    case output, errors
  }

  package struct Result: Sendable {
    /// The exit status, or 128 plus the number of the signal that ended the program.
    package var status: Int32
    package var output: String
    package var errors: String

    package var outputLines: [String] { output.split(separator: "\n").map(String.init) }
    package var errorLines: [String] { errors.split(separator: "\n").map(String.init) }
  }

  /// The program took too long, or ended before the awaited event.
  package struct Failure: Error, CustomStringConvertible {
    package var description: String

    package init(description: String) { self.description = description }
  }

  private struct State {
    var output = Data()
    var errors = Data()
    var openStreams = 0
    var status: Int32?
  }

  /// Time limit of a step; enough for a kernel with slow system calls.
  package static let patience = Duration.seconds(30)

  package let name: String
  /// Process id.
  package let identifier: Int32
  private let input: FileHandle?
  private let preloaded: Preloaded?
  private let lock = NSLock()
  /// Readable when `state` has changed.
  private let changed = Pipe()
  private var state = State()

  /// Starts the program.
  ///
  /// Foundation's `Process` is not used: it considers a program ended when it closes its inherited
  /// descriptors, and until then does not notice the end of any other program.
  ///
  /// - Parameters:
  ///   - program: a path, or a name to search in PATH.
  ///   - environment: changes to the environment of the tests; `nil` removes a variable.
  package init(
    _ program: String, _ arguments: [String] = [], input: Input = .typed, output: Sink = .collected,
    errors: Sink = .collected, environment: [String: String?] = [:]
  ) throws {
    name = ([program] + arguments).joined(separator: " ")
    let path = try program.contains("/") ? program : Place.tool(program)
    var variables = ProcessInfo.processInfo.environment
    // Tests share no device store with each other or with the user.
    variables["RINGTAP_NO_REMEMBER"] = "1"
    for (name, value) in environment { variables[name] = value }
    let source = try Source(input)
    let drains = [try Drain(output), try Drain(errors)]
    Self.keepDescriptors()
    // Writing to a program that has ended returns an error instead of ending the tests.
    signal(SIGPIPE, SIG_IGN)
    for handle in [changed.fileHandleForReading, changed.fileHandleForWriting] {
      _ = fcntl(handle.fileDescriptor, F_SETFL, O_NONBLOCK)
    }
    let (words, streams) = ([program] + arguments, [source.descriptor] + drains.map(\.descriptor))
    preloaded = try Preloaded.start(path, words, variables, streams)
    identifier =
      try preloaded?.identifier ?? Self.spawn(path, words, variables.map { "\($0)=\($1)" }, streams)
    self.input = source.writer
    for handle in [source.handle] + drains.map(\.handle) { try? handle?.close() }
    state.openStreams = drains.count { $0.reader != nil }
    collect(drains[0].reader) { $0.output.append($1) }
    collect(drains[1].reader) { $0.errors.append($1) }
    Thread.detachNewThread { [self] in waitForEnd() }
  }

  /// Child processes inherit no descriptors: one that holds another program's pipe would keep that program
  /// from ending.
  private static func keepDescriptors() {
    let names = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")) ?? []
    for number in names.compactMap({ Int32($0) }) where number > 2 { _ = fcntl(number, F_SETFD, FD_CLOEXEC) }
  }

  /// - Parameter streams: descriptors of the standard streams.
  private static func spawn(
    _ path: String, _ arguments: [String], _ environment: [String], _ streams: [Int32]
  ) throws -> Int32 {
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    for (number, stream) in streams.enumerated() {
      posix_spawn_file_actions_adddup2(&actions, stream, Int32(number))
    }
    var attributes = posix_spawnattr_t()
    posix_spawnattr_init(&attributes)
    defer { posix_spawnattr_destroy(&attributes) }
    // Signal settings of this process are not inherited.
    var (none, all) = (sigset_t(), sigset_t())
    sigemptyset(&none)
    sigfillset(&all)
    posix_spawnattr_setsigmask(&attributes, &none)
    posix_spawnattr_setsigdefault(&attributes, &all)
    posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF))
    var words = arguments.map { strdup($0) } + [nil]
    var variables = environment.map { strdup($0) } + [nil]
    defer { for text in words + variables { free(text) } }
    var identifier: pid_t = 0
    let failure = posix_spawn(&identifier, path, &actions, &attributes, &words, &variables)
    guard failure == 0 else { throw Failure(description: "\(path): \(String(cString: strerror(failure)))") }
    return identifier
  }

  /// Collects the end of the program. The process ID may then be reused, so the lock is held meanwhile.
  private func waitForEnd() {
    if let preloaded {
      let status = preloaded.end()
      return change { state in
        preloaded.close()
        state.status = status
      }
    }
    var info = siginfo_t()
    while waitid(P_PID, id_t(identifier), &info, Int32(WEXITED | WNOWAIT)) != 0, errno == EINTR {}
    change { state in
      var status: Int32 = 0
      waitpid(identifier, &status, 0)
      let signal = status & 0x7F
      state.status = signal == 0 ? status >> 8 & 0xFF : 128 + signal
    }
  }

  private func collect(_ handle: FileHandle?, _ take: @escaping @Sendable (inout State, Data) -> Void) {
    guard let handle else { return }
    Thread.detachNewThread { [self] in
      while true {
        let data = handle.availableData
        if data.isEmpty { break }
        change { take(&$0, data) }
      }
      // Foundation keeps the pipes of an ended program open.
      try? handle.close()
      change { $0.openStreams -= 1 }
    }
  }

  private func change(_ body: (inout State) -> Void) {
    lock.withLock { body(&state) }
    // A byte that does not fit is redundant.
    _ = write(changed.fileHandleForWriting.fileDescriptor, [1], 1)
  }

  // MARK: Output

  /// Output so far.
  package var output: String { lock.withLock { text(state.output) } }
  package var errors: String { lock.withLock { text(state.errors) } }

  package var hasEnded: Bool { lock.withLock { isOver } }

  /// Whether the program has ended and all of its output has been read. Requires the lock.
  private var isOver: Bool { state.status != nil && state.openStreams == 0 }

  // MARK: Waiting

  /// Traps on a thread of Swift's pool. The pool is small, so a thread that waits for a program may block the
  /// code that the program waits for.
  package static func checkThatItMayBlock() {
    guard withUnsafeCurrentTask(body: { $0 != nil }) else { return }
    MainActor.preconditionIsolated(
      "a thread of Swift's pool must not wait: make the test @MainActor or asynchronous")
  }

  /// Waits on a separate thread.
  private static func offPool<Value: Sendable>(
    _ body: @escaping @Sendable () throws -> Value
  ) async throws -> Value {
    try await withCheckedThrowingContinuation { continuation in
      Thread.detachNewThread { continuation.resume(with: Swift.Result { try body() }) }
    }
  }

  /// Waits until `body` returns a value.
  private func wait<Value>(
    for what: String, within limit: Duration, _ body: (State) -> Value?
  ) throws -> Value {
    Self.checkThatItMayBlock()
    let begin = ContinuousClock.now
    let end = begin + limit
    lock.lock()
    defer { lock.unlock() }
    while true {
      if let value = body(state) {
        tellIfSlow(ContinuousClock.now - begin, of: limit, what)
        return value
      }
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

  /// Prints a warning if a wait was long, before tests fail because the machine is too slow.
  private func tellIfSlow(_ time: Duration, of limit: Duration, _ what: String) {
    guard time > limit / 3 else { return }
    FileHandle.standardError.write(Data("slow: \(name): \(time) of \(limit) before \(what)\n".utf8))
  }

  /// Waits for any change of `state`, and releases the lock meanwhile. Does not use the wall clock, which a
  /// test may set.
  ///
  /// - Returns: `false` at the time limit.
  private func waitForChange(until end: ContinuousClock.Instant) -> Bool {
    lock.unlock()
    defer { lock.lock() }
    var wanted = pollfd(fd: changed.fileHandleForReading.fileDescriptor, events: Int16(POLLIN), revents: 0)
    guard poll(&wanted, 1, 1000) > 0 else { return ContinuousClock.now < end }
    var octets = [UInt8](repeating: 0, count: 4096)
    return read(wanted.fd, &octets, octets.count) > 0 || ContinuousClock.now < end
  }

  /// Waits for a complete line.
  ///
  /// - Returns: the first line that contains `text`.
  @discardableResult
  package func line(
    on stream: Stream = .output, containing text: String, within limit: Duration = Program.patience
  ) throws -> String {
    try wait(for: "a line with '\(text)'", within: limit) { state in
      let data = stream == .output ? state.output : state.errors
      // Complete lines only: the text after the last line feed is not one yet.
      return self.text(data).split(separator: "\n", omittingEmptySubsequences: false).dropLast()
        .first { $0.contains(text) }.map(String.init)
    }
  }

  /// Waits for a prompt, which needs no line feed.
  ///
  /// - Parameter times: minimum number of occurrences.
  package func question(
    containing text: String, times: Int = 1, within limit: Duration = Program.patience
  ) throws {
    _ = try wait(for: "'\(text)'", within: limit) { state in
      self.text(state.output).components(separatedBy: text).count > times ? true : nil
    }
  }

  /// Waits until the lines of a stream meet the condition, and returns them.
  package func lines(
    on stream: Stream = .output, untilThey what: String, within limit: Duration = Program.patience,
    _ isMet: ([String]) -> Bool
  ) throws -> [String] {
    try wait(for: "its lines \(what)", within: limit) { state in
      let lines = self.text(stream == .output ? state.output : state.errors).split(separator: "\n").map(
        String.init)
      return isMet(lines) ? lines : nil
    }
  }

  /// Closes the program's input and waits for its end.
  package func finish(within limit: Duration = Program.patience) throws -> Result {
    try? input?.close()
    return try ended(within: limit)
  }

  /// Waits for the program's end and leaves its input open.
  package func ended(within limit: Duration = Program.patience) throws -> Result {
    try wait(for: "its end", within: limit) { state in
      guard let status = state.status, state.openStreams == 0 else { return nil }
      return Result(status: status, output: self.text(state.output), errors: self.text(state.errors))
    }
  }

  @discardableResult
  package func line(
    on stream: Stream = .output, containing text: String, within limit: Duration = Program.patience
  ) async throws -> String {
    try await Self.offPool { try self.line(on: stream, containing: text, within: limit) }
  }

  package func question(
    containing text: String, times: Int = 1, within limit: Duration = Program.patience
  ) async throws {
    try await Self.offPool { try self.question(containing: text, times: times, within: limit) }
  }

  package func lines(
    on stream: Stream = .output, untilThey what: String, within limit: Duration = Program.patience,
    _ isMet: @escaping @Sendable ([String]) -> Bool
  ) async throws -> [String] {
    try await Self.offPool { try self.lines(on: stream, untilThey: what, within: limit, isMet) }
  }

  package func finish(within limit: Duration = Program.patience) async throws -> Result {
    try await Self.offPool { try self.finish(within: limit) }
  }

  package func ended(within limit: Duration = Program.patience) async throws -> Result {
    try await Self.offPool { try self.ended(within: limit) }
  }

  // MARK: Acting

  package func send(_ signal: Int32) {
    lock.withLock { if state.status == nil { kill(identifier, signal) } }
  }

  package func type(_ line: String) throws {
    try input?.write(contentsOf: Data((line + "\n").utf8))
  }

  /// Kills the program, and returns when the kernel has released its resources.
  package func end() {
    Self.checkThatItMayBlock()
    try? input?.close()
    send(SIGKILL)
    lock.lock()
    defer { lock.unlock() }
    let end = ContinuousClock.now + Self.patience
    while state.status == nil {
      guard waitForChange(until: end) else {
        // The process was killed and still exists: the kernel holds it. Makes the kernel log its blocked
        // tasks (sysrq w).
        if ProcessInfo.processInfo.environment["RINGTAP_TEST_KERNEL"] == "1" {
          try? Data("w".utf8).write(to: URL(filePath: "/proc/sysrq-trigger"))
        }
        Issue.record("\(name) does not go, though it was killed")
        return
      }
    }
  }

  package func end() async {
    await withCheckedContinuation { continuation in
      Thread.detachNewThread {
        self.end()
        continuation.resume()
      }
    }
  }

  private func text(_ data: Data) -> String { String(decoding: data, as: UTF8.self) }
}

// MARK: Complete runs

extension Program {
  /// Time limit for a program that reads the longest log.
  package static let longPatience = Duration.seconds(120)

  /// Runs a program to its end.
  package static func run(
    _ program: String, _ arguments: [String] = [], input: Input = .nothing,
    environment: [String: String?] = [:], within limit: Duration = longPatience
  ) throws -> Result {
    try Program(program, arguments, input: input, environment: environment).ended(within: limit)
  }

  package static func run(
    _ program: String, _ arguments: [String] = [], input: Input = .nothing,
    environment: [String: String?] = [:], within limit: Duration = longPatience
  ) async throws -> Result {
    try await Program(program, arguments, input: input, environment: environment)
      .ended(within: limit)
  }

  /// Runs a program, which must succeed, and returns its standard output.
  package static func output(of program: String, _ arguments: [String]) throws -> String {
    try run(program, arguments).demanded(program)
  }

  package static func output(of program: String, _ arguments: [String]) async throws -> String {
    try await run(program, arguments).demanded(program)
  }
}

extension Program.Result {
  fileprivate func demanded(_ name: String) throws -> String {
    guard status == 0 else { throw Program.Failure(description: "\(name): status \(status)\n\(errors)") }
    return output
  }
}

import Foundation
import Testing

/// A running program: what it writes is collected, and can be waited for.
final class Program: @unchecked Sendable {  // `lock` guards `state`
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
  /// Its process number.
  let identifier: Int32
  private let input: FileHandle
  private let lock = NSLock()
  /// Readable where `state` has changed.
  private let changed = Pipe()
  private var state = State()

  /// Starts it.
  ///
  /// Not by Foundation's `Process`: that takes a program for ended which closes what it inherited, and hears of no other
  /// program's end until it has.
  ///
  /// - Parameter program: a path, or a name to look for in PATH.
  init(_ program: String, _ arguments: [String] = []) throws {
    name = ([program] + arguments).joined(separator: " ")
    let path = try Self.path(of: program)
    let (input, output, errors) = (Pipe(), Pipe(), Pipe())
    Self.keepDescriptors()
    for handle in [changed.fileHandleForReading, changed.fileHandleForWriting] {
      _ = fcntl(handle.fileDescriptor, F_SETFL, O_NONBLOCK)
    }
    // No test teaches another one, nor its user's programs, where devices are.
    let environment = ProcessInfo.processInfo.environment.merging(["RINGTAP_NO_REMEMBER": "1"]) { $1 }
    identifier = try Self.spawn(
      path, [program] + arguments, environment.map { "\($0)=\($1)" },
      [
        input.fileHandleForReading.fileDescriptor, output.fileHandleForWriting.fileDescriptor,
        errors.fileHandleForWriting.fileDescriptor,
      ])
    self.input = input.fileHandleForWriting
    for handle in [input.fileHandleForReading, output.fileHandleForWriting, errors.fileHandleForWriting] {
      try? handle.close()
    }
    collect(output.fileHandleForReading) { $0.output.append($1) }
    collect(errors.fileHandleForReading) { $0.errors.append($1) }
    Thread.detachNewThread { [self] in waitForEnd() }
  }

  /// Whatever this process has open is no program's: one that has another's pipe keeps it from ending.
  private static func keepDescriptors() {
    let names = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")) ?? []
    for number in names.compactMap({ Int32($0) }) where number > 2 { _ = fcntl(number, F_SETFD, FD_CLOEXEC) }
  }

  /// - Parameter streams: what becomes its standard streams.
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
    // What this process does with signals is its own matter.
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
    try #require(failure == 0, "\(path): \(String(cString: strerror(failure)))")
    return identifier
  }

  /// Its number is another's from the moment when its end is taken: so that is done with the lock.
  private func waitForEnd() {
    var info = siginfo_t()
    while waitid(P_PID, id_t(identifier), &info, Int32(WEXITED | WNOWAIT)) != 0, errno == EINTR {}
    change { state in
      var status: Int32 = 0
      waitpid(identifier, &status, 0)
      let signal = status & 0x7F
      state.status = signal == 0 ? status >> 8 & 0xFF : 128 + signal
    }
  }

  static func path(of program: String) throws -> String {
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
    lock.withLock { body(&state) }
    // One that does not fit is one of many.
    _ = write(changed.fileHandleForWriting.fileDescriptor, [1], 1)
  }

  // MARK: Waiting

  /// Waits until `body` gives something.
  private func wait<Value>(
    for what: String, within limit: Duration, _ body: (State) -> Value?
  ) throws -> Value {
    let begin = ContinuousClock.now
    let end = begin + limit
    lock.lock()
    defer { lock.unlock() }
    while true {
      if let value = body(state) {
        tellIfSlow(ContinuousClock.now - begin, of: limit, what)
        return value
      }
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

  /// A machine that gets too slow for these tests shows before they fail on it.
  private func tellIfSlow(_ time: Duration, of limit: Duration, _ what: String) {
    guard time > limit / 3 else { return }
    FileHandle.standardError.write(Data("slow: \(name): \(time) of \(limit) before \(what)\n".utf8))
  }

  /// Waits for any change of `state`, without the lock meanwhile. By no wall clock, which a test may set.
  ///
  /// - Returns: `false` when it is too late.
  private func waitForChange(until end: ContinuousClock.Instant) -> Bool {
    lock.unlock()
    defer { lock.lock() }
    var wanted = pollfd(fd: changed.fileHandleForReading.fileDescriptor, events: Int16(POLLIN), revents: 0)
    guard poll(&wanted, 1, 1000) > 0 else { return ContinuousClock.now < end }
    var octets = [UInt8](repeating: 0, count: 4096)
    return read(wanted.fd, &octets, octets.count) > 0 || ContinuousClock.now < end
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

  /// Waits until the lines of a stream are as wanted, and returns them.
  func lines(
    on stream: Stream = .output, untilThey what: String, within limit: Duration = Program.patience,
    _ isMet: ([String]) -> Bool
  ) throws -> [String] {
    try wait(for: "its lines \(what)", within: limit) { state in
      let lines = self.text(stream == .output ? state.output : state.errors).split(separator: "\n").map(
        String.init)
      return isMet(lines) ? lines : nil
    }
  }

  /// Waits for its end.
  func finish(within limit: Duration = Program.patience) throws -> Result {
    try? input.close()
    return try wait(for: "its end", within: limit) { state in
      guard let status = state.status, state.openStreams == 0 else { return nil }
      return Result(status: status, output: self.text(state.output), errors: self.text(state.errors))
    }
  }

  // MARK: Acting

  func send(_ signal: Int32) {
    lock.withLock { if state.status == nil { kill(identifier, signal) } }
  }

  func type(_ line: String) throws {
    try input.write(contentsOf: Data((line + "\n").utf8))
  }

  /// Ends it at once; returns when the kernel has taken back what it held.
  func end() {
    try? input.close()
    send(SIGKILL)
    lock.lock()
    defer { lock.unlock() }
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

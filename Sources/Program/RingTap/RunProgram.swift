import BLEHost
import BLELinux
import Glibc
import JSONText
import Synchronization

/// Runs the whole of a program: ends it well on Ctrl-C, and tells what went wrong in one line.
///
/// ```swift
/// await runProgram {
///   let radio = try await Radio.open()
///   try await radio.withRing { ring in
///     for try await sample in ring.rawSamples { print(sample) }
///   }
/// }
/// ```
///
/// SIGINT (Ctrl-C), SIGTERM and SIGHUP cancel the task of `body`: sensors are told to stop and links are closed, and the
/// program goes on after this call. A second signal ends it at once. Where `body` throws, what it threw goes to standard
/// error behind the program's name, and the exit status is 1; where a signal ended it before anything had begun, 128 and the
/// signal's number.
///
/// Without it, a signal ends the process where it stands: the kernel drops the link, and the sensor streams on until it
/// notices. An error that nobody catches ends in a backtrace. A program that has signals or tasks of its own does without:
/// all that is needed is that the task around `withRing` and its siblings is cancelled.
///
/// - Parameter body: runs in a task of its own.
public func runProgram(_ body: @escaping @Sendable () async throws -> Void) async {
  let interruption = Interruption()
  do {
    try interruption.listen()
    let task = Task { try await body() }
    interruption.onSignal { task.cancel() }
    try await task.value
  } catch is CancellationError {
    exit(128 + (interruption.signal ?? 0))
  } catch {
    let name = CommandLine.arguments.first?.split(separator: "/").last ?? "program"
    try? StandardStream.error.write(Array(("\(name): \(error)".printableLines + "\n").utf8).span)
    exit(1)
  }
}

/// The first signal cancels; the second ends the process.
private final class Interruption: Sendable {
  private struct State: Sendable {
    var signal: CInt?
    var cancel: (@Sendable () -> Void)?
  }

  private let state = Mutex(State())

  var signal: CInt? { state.withLock(\.signal) }

  func listen() throws(HostError) {
    do throws(SystemError) { try InterruptSignals.handle { self.take($0) } } catch { throw .system(error) }
  }

  /// - Parameter cancel: called at once where a signal has come before.
  func onSignal(_ cancel: @escaping @Sendable () -> Void) {
    let hasCome = state.withLock { state in
      state.cancel = cancel
      return state.signal != nil
    }
    if hasCome { cancel() }
  }

  private func take(_ number: CInt) {
    let (isSecond, cancel) = state.withLock { state in
      defer { state.signal = number }
      return (state.signal != nil, state.cancel)
    }
    if isSecond { exit(128 + number) }
    cancel?()
  }
}

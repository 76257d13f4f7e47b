import BLEHost
import BLELinux
import Glibc
import JSONText
import Synchronization

/// Runs the main function of a program. Ends the program cleanly on Ctrl-C, and prints an error as one line.
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
/// SIGINT (Ctrl-C), SIGTERM and SIGHUP cancel the task of `body`: sensors are stopped, links are closed, and
/// the program continues after this call. A second signal ends the program immediately. If `body` throws, the
/// error is printed on standard error after the program's name, and the exit status is 1. If a signal ended
/// `body` before it had started anything, the exit status is 128 plus the signal's number.
///
/// Without this function, a signal ends the process immediately: the kernel drops the link, and the sensor
/// continues streaming until it detects the loss. An uncaught error ends in a backtrace. A program that
/// handles signals itself does not need this function if it cancels the task around `withRing` and similar
/// calls.
///
/// - Parameter body: runs in a separate task.
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

/// Cancels on the first signal and ends the process on the second.
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

  /// Sets the function that cancels the task on a signal.
  ///
  /// - Parameter cancel: called immediately if a signal has already arrived.
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

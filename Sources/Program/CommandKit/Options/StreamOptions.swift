package import ArgumentParser
import BLELinux
package import Outlets

/// Samples for other programs while they are recorded.
package struct StreamOptions: ParsableArguments {
  package init() {}

  @Option(
    help: ArgumentHelp(
      """
      Print each sample as a line of JSON as soon as it has come: '-' is standard output, unix:PATH a socket for readers of this \
      user, tcp:HOST:PORT one for all who reach it, unencrypted: use 127.0.0.1. Repeat it for several.
      """, valueName: "target"))
  package var stream: [String] = []

  package func validate() throws { _ = try targets }

  /// In the order given.
  package var targets: [StreamTarget] { get throws { try Self.targets(stream, "--stream") } }

  /// Refuses a stream of what is not recorded.
  package func validate(output: String?) throws {
    if output == nil, !stream.isEmpty {
      throw ValidationError("--stream needs an --output directory; without, --json prints what comes")
    }
  }

  /// - Parameter option: its name, where that is another.
  package static func targets(_ texts: [String], _ option: String) throws -> [StreamTarget] {
    var targets: [StreamTarget] = []
    for text in texts {
      let target: StreamTarget
      do throws(StreamTarget.ParseError) { target = try StreamTarget(text) } catch {
        throw ValidationError("\(option): \(error)")
      }
      guard !targets.contains(target) else { throw ValidationError("\(option): '\(text)' is given twice") }
      targets.append(target)
    }
    return targets
  }
}

/// Samples for receivers of the Lab Streaming Layer.
package struct LSLOptions: ParsableArguments {
  package init() {}

  @Flag(
    help: ArgumentHelp(
      """
      Publish each table as a stream of the Lab Streaming Layer (LSL), which this machine's whole network can receive, and \
      events as markers. Needs liblsl.
      """))
  package var lsl = false
}

/// What a command does with its stream.
extension SampleStream {
  /// How long its readers may take after a signal.
  private static let leavingPatience = Duration.milliseconds(250)

  /// What a recording does where nobody reads standard output any more.
  package enum OutputEnd: Sendable {
    case goesOn
    /// Nothing else was asked for: it ends, as by a first Ctrl-C.
    case ends
  }

  /// Opens it.
  ///
  /// - Returns: `nil` without a target.
  package static func open(_ targets: [StreamTarget], _ end: OutputEnd) throws -> SampleStream? {
    if targets.isEmpty { return nil }
    return try failing { () throws(SystemError) in
      try SampleStream(targets) { news in
        switch news {
        case .refused: Console.note("a reader of the stream was refused: there are as many as there may be")
        case .outputEnded(let error): tell(Console.WriteError(error), end)
        }
      }
    }
  }

  private static func tell(_ error: Console.WriteError, _ end: OutputEnd) {
    if case .failed(let error) = error {
      Console.note(failure: Failure(error).message + (end == .goesOn ? "; the recording goes on" : ""))
    }
    if end == .ends { Interruption.interrupt(because: "nobody reads standard output any more") }
  }

  /// Sends the rest, and says what standard output's reader missed.
  package func finishAndTell() async {
    // Whoever interrupts a command does not wait for its readers.
    try? await Interruption.leaving(after: Self.leavingPatience) { await self.finish() }
    let missed = missed
    guard missed > 0 else { return }
    Console.note("standard output's reader was too slow for \(missed) lines; what was recorded has them")
  }
}

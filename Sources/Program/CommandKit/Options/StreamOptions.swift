package import ArgumentParser
import BLELinux
package import Outlets

/// Options for sending samples to other programs during a recording.
package struct StreamOptions: ParsableArguments {
  package init() {}

  @Option(
    help: ArgumentHelp(
      """
      Print each sample as a line of JSON as soon as it arrives: '-' is standard output, unix:PATH a socket \
      for readers of the same user, tcp:HOST:PORT an unencrypted socket for anyone who can reach it: use \
      127.0.0.1. May be repeated.
      """, valueName: "target"))
  package var stream: [String] = []

  package func validate() throws { _ = try targets }

  /// The targets, in the order given.
  package var targets: [StreamTarget] { get throws { try Self.targets(stream, "--stream") } }

  /// Rejects --stream without a recording.
  package func validate(output: String?) throws {
    if output == nil, !stream.isEmpty {
      throw ValidationError("--stream needs an --output directory; without one, --json prints the samples")
    }
  }

  /// Parses the targets of an option.
  ///
  /// - Parameter option: the option's name, for messages.
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

/// Options for publishing samples in the Lab Streaming Layer.
package struct LSLOptions: ParsableArguments {
  package init() {}

  @Flag(
    help: ArgumentHelp(
      """
      Publish each table as a stream of the Lab Streaming Layer (LSL), which every host on this machine's \
      network can receive, and events as markers. Needs liblsl.
      """))
  package var lsl = false
}

/// The sample stream of a command.
extension SampleStream {
  /// Maximum time to send the remaining samples after a signal.
  private static let leavingPatience = Duration.milliseconds(250)

  /// Effect on a recording when the reader closes standard output.
  package enum OutputEnd: Sendable {
    case goesOn
    /// The recording ends as after a first Ctrl-C, because it has no other purpose.
    case ends
  }

  /// Opens the stream.
  ///
  /// - Returns: `nil` without a target.
  package static func open(_ targets: [StreamTarget], _ end: OutputEnd) throws -> SampleStream? {
    if targets.isEmpty { return nil }
    return try failing { () throws(SystemError) in
      try SampleStream(targets) { news in
        switch news {
        case .refused: Console.note("a reader of the stream was refused: the limit of readers is reached")
        case .outputEnded(let error): tell(Console.WriteError(error), end)
        }
      }
    }
  }

  private static func tell(_ error: Console.WriteError, _ end: OutputEnd) {
    if case .failed(let error) = error {
      Console.note(failure: Failure(error).message + (end == .goesOn ? "; the recording continues" : ""))
    }
    if end == .ends { Interruption.interrupt(because: "standard output was closed by its reader") }
  }

  /// Sends the remaining samples, and reports how many the reader of standard output missed.
  package func finishAndTell() async {
    // An interrupted command does not wait for its readers.
    try? await Interruption.leaving(after: Self.leavingPatience) { await self.finish() }
    let missed = missed
    guard missed > 0 else { return }
    Console.note(
      "the reader of standard output was too slow and missed \(missed) lines; the recording has "
        + "them")
  }
}

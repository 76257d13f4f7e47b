package import ArgumentParser
import BLELinux
import Glibc

/// The root command of a program: runs the program's arguments and returns the exit status.
package protocol ProgramRoot: ParsableCommand {}

extension ProgramRoot {
  /// Drops privileges, checks the process's limits, runs a command line, and ends the process.
  ///
  /// - Parameters:
  ///   - words: a command of ringtap that needs the same privileges.
  ///   - body: runs the command line.
  package static func begin(
    privileges words: [String], _ body: () async -> CInt
  ) async -> Never {
    Confinement.begin(words)
    do {
      try OpenFiles.check()
      try Interruption.take()
    } catch { Glibc.exit(status(after: error)) }
    Glibc.exit(await body())
  }

  /// Runs a command line without the program's name.
  ///
  /// - Returns: the exit status. All messages have then been printed.
  package static func status(running arguments: [String]) async -> CInt {
    var command: any ParsableCommand
    do {
      command = try parseAsRoot(Self.spelt(arguments))
    } catch { return status(refusing: error) }
    do {
      if var command = command as? any AsyncParsableCommand {
        try ThreadLimit.check()
        try await command.run()
      } else {
        try command.run()
      }
      return Console.takeFailure() ? EXIT_FAILURE : EXIT_SUCCESS
    } catch { return status(after: error) }
  }

  /// Replaces `--help-all` by `--help-hidden`, which is the argument parser's name for the option.
  private static func spelt(_ arguments: [String]) -> [String] {
    let end = arguments.firstIndex(of: "--") ?? arguments.endIndex
    return arguments[..<end].map { $0 == "--help-all" ? "--help-hidden" : $0 } + arguments[end...]
  }

  /// Prints the argument parser's message: the requested help, or the error and a hint, one per line.
  private static func status(refusing error: any Error) -> CInt {
    let text = fullMessage(for: error)
    guard text.hasPrefix("Error: ") else {
      do { try Console.print(text) } catch { return status(after: error) }
      return EXIT_SUCCESS
    }
    let lines = text.split(separator: "\n")
    tell(lines)
    if let place = lines.last(where: { $0.hasPrefix("  See ") }) { Console.usage(String(place)) }
    return 2
  }

  /// Returns a help text with shortened headings of command groups: the argument parser writes FIND
  /// SUBCOMMANDS. Without command groups, removes the section of the options --version and --help.
  package static func named(_ help: String) -> String {
    let ending = " SUBCOMMANDS:"
    let lines = help.split(separator: "\n", omittingEmptySubsequences: false)
    let hasGroups = lines.contains { $0.hasSuffix(ending) }
    let shown = lines.enumerated().filter { index, _ in
      !hasGroups || !lines[...index].suffix(4).contains("OPTIONS:")
    }
    return shown.map { $1.hasSuffix(ending) ? $1.dropLast(ending.count) + ":" : $1 }.joined(separator: "\n")
  }

  /// Prints the error without the argument parser's usage lines.
  private static func tell(_ lines: [Substring]) {
    let message = lines.prefix {
      !$0.hasPrefix("Help:") && !$0.hasPrefix("Usage:") && !$0.hasPrefix("  See ")
    }
    Console.usage(message.joined(separator: " "))
  }

  /// Maps each outcome of a command to the exit status that the help documents.
  private static func status(after error: any Error) -> CInt {
    switch error {
    case Console.WriteError.readerGone: return EXIT_SUCCESS
    case Console.WriteError.failed(let error):
      Console.note(Failure(error).message)
      return EXIT_FAILURE
    case is CancellationError:
      Console.note(Interruption.cause ?? "interrupted")
      return Interruption.cause == nil ? 130 : EXIT_FAILURE
    case let failure as Failure:
      Console.note(failure.message)
      return EXIT_FAILURE
    default: break
    }
    let code = exitCode(for: error)
    let text = fullMessage(for: error)
    // The message for an error of a running command does not contain the command's name.
    if code == .validationFailure {
      tell(text.split(separator: "\n"))
      return 2
    }
    if code.isSuccess {
      do { try Console.print(named(text)) } catch { return status(after: error) }
    } else if !text.isEmpty {
      Console.usage(text)
    }
    return code.rawValue
  }
}

/// Checks the limit on open file descriptors.
package enum OpenFiles {
  /// Maximum number of descriptors that a command needs: a capture in NumPy format has its columns, logs and
  /// sockets open. Swift's threads also open descriptors, and trap if no descriptor is available.
  private static let needed = 64

  package static func check() throws {
    guard !ProcessFacts.canOpen(needed) else { return }
    throw Failure(
      "the limit of open files is too low: \(needed) more are needed; raise it, for example with "
        + "`ulimit -n 1024`")
  }
}

/// Checks the limit on threads.
package enum ThreadLimit {
  /// Number of threads of this program: receive, write, log, streams, signals.
  private static let own = 8
  /// Maximum number of processors counted. Swift's pool has one thread for each processor.
  private static let processorLimit = 24

  private static let outcome: SystemError? = {
    let processors = min(max(1, sysconf(CInt(_SC_NPROCESSORS_ONLN))), processorLimit)
    do throws(SystemError) { try SystemThread.check(count: own + processors) } catch { return error }
    return nil
  }()

  /// Checks the limit. Call this before the first task: if Swift's pool cannot create a thread, it waits
  /// forever.
  package static func check() throws {
    guard let error = outcome else { return }
    throw Failure(
      "cannot start enough threads (\(error)); raise the limit of processes, for example with `ulimit -u "
        + "1024`, or the service's TasksMax"
    )
  }
}

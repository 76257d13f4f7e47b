import ArgumentParser
import BLEHost
import BLELinux
import ColmiRing
import CommandKit
import SensorSessions

/// Asks for confirmation before an irreversible command.
struct RingConsent: ParsableArguments {
  @Flag(help: "Do not ask for confirmation.") var yes = false

  /// Asks the question and waits for the answer.
  ///
  /// - Throws: an error if the answer is not `yes`, or if standard input is not a terminal.
  func ask(_ question: String) throws {
    guard !yes else { return }
    guard StandardStream.input.isTerminal else {
      throw Failure("\(question) There is no terminal to confirm this: give --yes")
    }
    Console.note("\(question) Type yes:")
    guard readLine() == "yes" else { throw Failure("nothing was done") }
  }
}

extension RingOptions {
  fileprivate func order(
    _ request: RingDangerousRequest, _ consent: RingConsent, _ consequence: String
  ) async throws {
    try consent.ask(consequence)
    try await withRing { ring in
      try await failing { () async throws(RingError) in try await ring.order(request) }
      Console.note("sent; a ring does not reply to this")
    }
  }
}

/// The command `ringtap ring power-off`.
package struct RingPowerOffCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "power-off", abstract: "Switch the ring off until it is charged.",
    discussion: """
      EXAMPLE
        ringtap ring power-off 70:CB:0D:00:A1:B2 --yes
      """)

  @OptionGroup var ring: RingOptions
  @OptionGroup var consent: RingConsent

  func run() async throws {
    try await ring.order(.powerOff, consent, "The ring will be off until it is put on its charger.")
  }
}

/// The command `ringtap ring reboot`.
package struct RingRebootCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "reboot", abstract: "Restart the ring, if its firmware supports it.",
    discussion: """
      Only one source documents this command; some firmware may switch the ring off instead.

      EXAMPLE
        ringtap ring reboot 70:CB:0D:00:A1:B2 --yes
      """)

  @OptionGroup var ring: RingOptions
  @OptionGroup var consent: RingConsent

  func run() async throws {
    try await ring.order(.reboot, consent, "The ring will restart, and may stay off until it is charged.")
  }
}

/// The command `ringtap ring factory-reset`.
package struct RingFactoryResetCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "factory-reset", abstract: "Erase the ring's stored data and settings.",
    discussion: """
      EXAMPLE
        ringtap ring factory-reset 70:CB:0D:00:A1:B2 --yes
      """)

  @OptionGroup var ring: RingOptions
  @OptionGroup var consent: RingConsent

  func run() async throws {
    try await ring.order(.factoryReset, consent, "The ring will lose its logs and settings.")
  }
}

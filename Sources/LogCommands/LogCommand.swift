import ArgumentParser

/// `ringtap log …`: packet logs.
package struct LogCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "log",
    abstract: "Record packet logs and look into them.",
    subcommands: [LogRecordCommand.self, Show.self, Stats.self, Convert.self, Replay.self])
}

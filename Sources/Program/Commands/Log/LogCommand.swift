import ArgumentParser
package import CommandKit

/// `ringtap log …`: packet logs.
package struct LogCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "log",
    abstract: "Record, print and convert packet logs.",
    subcommands: [LogRecordCommand.self, Show.self, Stats.self, Convert.self])

  /// Writes a copy of a log in which addresses, names and keys are replaced, as `ringtap log convert
  /// --anonymise` does.
  package static func anonymise(
    _ log: String, into output: String, _ overwriting: OverwriteOptions
  ) throws {
    try Convert.parse(
      ["--output=\(output)", "--anonymise"] + (overwriting.force ? ["--force"] : []) + ["--", log]
    ).run()
  }
}

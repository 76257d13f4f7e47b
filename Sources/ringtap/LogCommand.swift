import ArgumentParser

/// `ringtap log …`: packet logs.
struct LogCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "log",
    abstract: "Look into packet logs.",
    subcommands: [Show.self, Convert.self])
}

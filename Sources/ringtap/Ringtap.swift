import ArgumentParser

@main struct Ringtap: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "ringtap",
    abstract: "A raw Bluetooth LE host stack for Linux.",
    subcommands: [LogCommand.self])
}

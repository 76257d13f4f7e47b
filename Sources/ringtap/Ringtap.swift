import ArgumentParser

@main struct Ringtap: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "ringtap",
    abstract: "A raw Bluetooth LE host stack for Linux.",
    subcommands: [EmulateCommand.self, LogCommand.self])

  static func main() async {
    do {
      try Interruption.take()
    } catch { exit(withError: error) }
    await main(nil)
  }
}

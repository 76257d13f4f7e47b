import ArgumentParser
import CommandKit

/// The program `harness`: commands that serve the development of ringtap only. Nothing installs it.
@main struct Harness: AsyncParsableCommand, ProgramRoot {
  static let configuration = CommandConfiguration(
    commandName: "harness",
    abstract: "Measures and tests ringtap.",
    subcommands: [
      AirCommand.self, CaptureCommand.self, RecordCommand.self, ReplayCommand.self, ScriptPeerCommand.self,
      SocketCommand.self,
    ])

  static func main() async {
    let arguments = Array(CommandLine.arguments.dropFirst())
    // As `ringtap capture` does, so that its costs are the same.
    await begin(privileges: ["capture"]) { await status(running: arguments) }
  }
}

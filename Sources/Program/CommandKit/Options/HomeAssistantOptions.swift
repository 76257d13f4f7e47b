import ArgumentParser
import Fleet
package import Outlets

/// `homeAssistant` in the daemon's configuration file.
package struct DaemonHomeAssistantOptions: ParsableArguments {
  package init() {}

  @Option var to: String?
  @Option var ca: String?
  @Option var passwordFile: String?

  package func validate() throws { _ = try plan() }

  /// Returns the publishing plan.
  ///
  /// - Returns: `nil` if nothing is published to Home Assistant.
  package func plan() throws -> HomePlan? {
    try to.map { try HomePlan($0, ca: ca, passwordFile: passwordFile) }
  }
}

extension HomePlan {
  init(_ url: String, ca: String?, passwordFile: String?) throws {
    let broker = try BrokerOptions.broker(url, passwordFile: passwordFile, prefix: Self.defaultPrefix)
    self.init(broker, certificates: ca, version: Console.version)
  }
}

/// The end of a command's connection to Home Assistant.
extension HomeAssistant {
  /// Publishes the end of the recording. Prints a message if some values could not be published.
  ///
  /// - Returns: whether everything was published.
  package func finishAndTell() async -> Bool {
    let problem: String?
    // An interrupted command does not wait for a broker.
    do { problem = try await Interruption.leaving { await self.finish() } } catch {
      problem = "the broker was too slow"
    }
    guard let problem else { return true }
    Console.note("Home Assistant did not receive everything: \(problem); the recording is complete")
    return false
  }
}

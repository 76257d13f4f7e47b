package import ArgumentParser
import Fleet
package import Outlets

/// What is measured, for Home Assistant while it is recorded.
package struct HomeAssistantOptions: ParsableArguments {
  package init() {}

  @Option(
    help: ArgumentHelp(
      """
      Tell Home Assistant each value through this broker, by MQTT discovery: mqtt[s]://[user@]host[:port][/prefix]; the prefix is \
      'homeassistant' if not given.
      """, valueName: "url"))
  package var homeAssistant: String?

  @Option(
    help: ArgumentHelp(
      "The authority's certificate (PEM) for mqtts://; the system's if not given.", valueName: "file"))
  package var homeAssistantCa: String?

  @Option(
    help: ArgumentHelp(
      "A file whose first line is the password; else RINGTAP_MQTT_PASSWORD in the environment.",
      valueName: "file"))
  package var homeAssistantPasswordFile: String?

  package func validate() throws { _ = try plan() }

  /// - Returns: `nil` where Home Assistant is told nothing.
  package func plan() throws -> HomePlan? {
    guard let homeAssistant else {
      if homeAssistantCa != nil || homeAssistantPasswordFile != nil {
        throw ValidationError("--home-assistant-ca and -password-file need --home-assistant")
      }
      return nil
    }
    return try HomePlan(homeAssistant, ca: homeAssistantCa, passwordFile: homeAssistantPasswordFile)
  }
}

/// `homeAssistant` in a daemon's file.
package struct DaemonHomeAssistantOptions: ParsableArguments {
  package init() {}

  @Option var to: String?
  @Option var ca: String?
  @Option var passwordFile: String?

  package func validate() throws { _ = try plan() }

  /// - Returns: `nil` where Home Assistant is told nothing.
  package func plan() throws -> HomePlan? {
    try to.map { try HomePlan($0, ca: ca, passwordFile: passwordFile) }
  }
}

extension HomePlan {
  fileprivate init(_ url: String, ca: String?, passwordFile: String?) throws {
    let broker = try BrokerOptions.broker(url, passwordFile: passwordFile, prefix: Self.defaultPrefix)
    self.init(broker, certificates: ca, version: Console.version)
  }
}

/// What a command does with what it tells Home Assistant.
extension HomeAssistant {
  /// Tells the end, and whether something was not told.
  ///
  /// - Returns: whether all was.
  package func finishAndTell() async -> Bool {
    let problem: String?
    // Whoever interrupts a command does not wait for a broker.
    do { problem = try await Interruption.leaving { await self.finish() } } catch {
      problem = "the broker was too slow"
    }
    guard let problem else { return true }
    Console.note("Home Assistant was not told everything: \(problem); what was recorded is whole")
    return false
  }
}

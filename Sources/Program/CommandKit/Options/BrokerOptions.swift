package import ArgumentParser
import BLELinux
package import Fleet
import Recording

/// Options for connecting to an MQTT broker, for commands that only publish or collect.
package struct BrokerOptions: ParsableArguments {
  package init() {}

  @Option(
    help: ArgumentHelp(
      "The CA certificate (PEM) for mqtts:// (default: the system's).", valueName: "file"))
  package var ca: String?

  @Option(
    help: ArgumentHelp(
      "A file whose first line is the password (default: RINGTAP_MQTT_PASSWORD in the environment).",
      valueName: "file"))
  package var passwordFile: String?

  /// Parses a broker's URL and reads its password.
  ///
  /// - Parameter prefix: the topic prefix for a URL without one.
  package static func broker(
    _ url: String, passwordFile: String?, prefix: String = BrokerAddress.defaultPrefix
  ) throws -> BrokerAddress {
    var broker: BrokerAddress
    do throws(BrokerAddress.ParseError) { broker = try BrokerAddress(url, prefix: prefix) } catch {
      throw ValidationError(error.description)
    }
    if let passwordFile {
      broker.password = try secret(in: passwordFile)
    } else if broker.password == nil {
      broker.password = ProcessFacts.environment("RINGTAP_MQTT_PASSWORD")
    }
    if passwordFile != nil, broker.user == nil {
      throw ValidationError("a password needs a user in the URL, such as mqtt://user@host")
    }
    return broker
  }

  /// Returns the first line of a file. Passwords are read from files because other users can see command-line
  /// arguments.
  ///
  /// Under systemd, a credential with the file's name takes precedence, because the service's user may not be
  /// able to read the file itself (`LoadCredential=`, systemd.exec(5)).
  static func secret(in file: String) throws -> String {
    let credential = ProcessFacts.environment("CREDENTIALS_DIRECTORY").map { "\($0)/\(Files.name(of: file))" }
    let path = credential.flatMap { Files.exists($0) ? $0 : nil } ?? file
    let octets = try failing { () throws(SystemError) in try WrittenFile.octets(of: path, limit: 4096) }
    return String(decoding: octets.prefix { $0 != 0x0A && $0 != 0x0D }, as: UTF8.self)
  }
}

package import ArgumentParser
import BLELinux
package import Fleet
import JSONText
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
    try broker(try address(url, prefix: prefix), password: try passwordFile.map(secret))
  }

  /// Parses a broker's URL.
  ///
  /// - Throws: `ValidationError` with a valid example, without the URL's password.
  package static func address(_ url: String, prefix: String) throws -> BrokerAddress {
    do throws(BrokerAddress.ParseError) { return try BrokerAddress(url, prefix: prefix) } catch {
      throw ValidationError(error.description)
    }
  }

  /// Adds the password to a broker's address.
  ///
  /// - Parameter password: the contents of a password file; `nil` for the password of the URL or the
  ///   environment.
  /// - Throws: `ValidationError` for a password without a user.
  package static func broker(_ address: BrokerAddress, password: String?) throws -> BrokerAddress {
    var broker = address
    broker.password =
      password ?? broker.password ?? ProcessFacts.environment("RINGTAP_MQTT_PASSWORD")
    if password != nil, broker.user == nil {
      throw ValidationError("a password needs a user in the URL, such as mqtt://user@host")
    }
    return broker
  }

  /// Returns the first line of a file. A password is read from a file because other users can see
  /// command-line arguments.
  ///
  /// Under systemd, a credential with the file's name takes precedence, because the service's user may lack
  /// permission to read the file (`LoadCredential=`, systemd.exec(5)).
  package static func secret(in file: String) throws -> String {
    let credential = ProcessFacts.environment("CREDENTIALS_DIRECTORY").map { "\($0)/\(Files.name(of: file))" }
    let path = credential.flatMap { Files.exists($0) ? $0 : nil } ?? file
    let octets = try failing { () throws(SystemError) in try WrittenFile.octets(of: path, limit: 4096) }
    return String(decoding: octets.prefix { $0 != 0x0A && $0 != 0x0D }, as: UTF8.self)
  }
}

extension FleetName {
  /// Returns a publisher's name given by the user, after a check.
  ///
  /// - Throws: `ValidationError` if the text is not a valid name.
  package static func checked(_ name: String) throws -> String {
    guard isValid(name) else {
      throw ValidationError("'\(name.printable)' is not a name: use 1 … 64 letters, digits, '.', '_' and '-'")
    }
    return name
  }
}

extension PublishRun.Plan {
  /// Creates a plan for publishing captures.
  ///
  /// - Parameters:
  ///   - name: the publisher's name; `nil` to combine the names of this machine and the device.
  ///   - backlog: maximum size of the unsent rows of a table.
  ///   - patience: time without progress after which publishing stops at the end.
  ///   - certificates: PEM file of CA certificates; `nil` for the system's certificates.
  package init(
    _ broker: BrokerAddress, as name: String?, backlog: ByteCount, patience: Duration, certificates: String?
  ) {
    self.init(broker)
    self.name = name
    backlogByteCount = backlog.value
    self.patience = patience
    self.certificates = certificates
  }
}

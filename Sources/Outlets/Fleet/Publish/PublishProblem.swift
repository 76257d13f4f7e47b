import BLEHost
public import BLELinux
import Glibc

/// An error that prevents publishing or collecting. The message has the problem first, then the advice.
public enum PublishProblem: Error, Hashable, Sendable, CustomStringConvertible {
  /// A problem with the broker.
  case broker(String)
  /// A problem with the broker that a retry cannot solve.
  case final(String)
  /// The broker does not support MQTT 5.
  case oldBroker(String)
  case system(SystemError)
  /// `publish.json` is invalid.
  case damaged(String)
  /// A table differs from the table that was published before.
  case otherCapture(String)
  /// A file is not a text table.
  case noTable(String)
  case noCapture(String)

  /// Whether the broker causes the problem, so that every capture is affected.
  var isBrokers: Bool {
    switch self {
    case .broker, .final, .oldBroker: true
    default: false
    }
  }

  public var description: String {
    switch self {
    case .broker(let text), .final(let text), .oldBroker(let text): text
    case .system(let error): ErrorGuide.text(of: error)
    case .damaged(let path):
      "\(path) is damaged; remove it to publish everything as a new session"
    case .otherCapture(let path):
      "\(path) is not the table that was published before; remove \(PublishCursor.fileName) beside it to publish it as a "
        + "new session"
    case .noTable(let path): "\(path) is not a text table; move it out of the capture's directory"
    case .noCapture(let path): "\(path) has no text tables; give a capture's directory (--format csv)"
    }
  }
}

/// MQTT version to use with a broker: 5.0, or 3.1.1 if the broker does not support 5.0. Version 3.1.1 has no
/// packet limit and no reason codes.
package struct ProtocolVersion: Hashable, Sendable {
  private(set) var is5 = true

  package init() {}

  /// Switches to the older version and notifies the user if the broker does not support MQTT 5.
  ///
  /// - Returns: whether to retry with the older version.
  package mutating func fallsBack(after problem: PublishProblem, _ note: (String) -> Void) -> Bool {
    guard is5, case .oldBroker = problem else { return false }
    is5 = false
    note(
      "\(problem); continuing with MQTT 3.1.1, which cannot keep messages of up to 256 MB out of memory; use a "
        + "broker such as Mosquitto 1.6 or later")
    return true
  }
}

extension BrokerAddress {
  /// Converts an error to a message with the problem and advice.
  ///
  /// - Parameter certificates: the certificate file given by the user.
  func problem(_ error: MQTTError, certificates: String?) -> PublishProblem {
    let text = text(error, certificates)
    return switch error {
    case .noLibrary, .refused(142, _): .final(text)
    case .refused(132, _), .refused(1, _): .oldBroker(text)
    default: .broker(text)
    }
  }

  private func text(_ error: MQTTError, _ certificates: String?) -> String {
    let place = "the broker at \(host):\(port)"
    switch error {
    case .noLibrary(let why):
      return "MQTT needs Mosquitto's client library (\(why)); install it: sudo apt-get install libmosquitto1"
    case .noAddress:
      return "the broker's host '\(host)' is unknown; correct the URL, or check the name service"
    case .system(let error) where error.number == EPERM || error.number == EACCES:
      return
        "cannot reach \(place) (\(error)): a firewall or the service's unit forbids it; allow its address, "
        + "in a unit with IPAddressAllow="
    case .system(let error):
      return "cannot reach \(place) (\(error)); start it, or correct the URL"
    case .tls(let why):
      if why.has("host name verification") {
        return
          "the certificate of \(place) is for another host than '\(host)'; use the name in the certificate"
      }
      if why.has("cannot read") {
        return
          "\(why); give a readable file of PEM certificates with --ca, or with ?ca=FILE in the URL of --to"
      }
      if why.has("certificate") {
        let trusted = certificates ?? "the system's certificates"
        return
          "the certificate of \(place) cannot be verified with \(trusted) (\(why)); give that of its "
          + "authority with --ca, or with ?ca=FILE in the URL of --to"
      }
      return
        "cannot encrypt the connection with \(place) (\(why)); check that it speaks TLS at this port, or use "
        + "mqtt://"
    case .refused(134, let name), .refused(135, let name):
      let who = user.map { "user '\($0)'" } ?? "a client without a user"
      return
        "\(place) refuses \(who) (\(name)); give the user in the URL and the password in RINGTAP_MQTT_PASSWORD, or "
        + "its file with --password-file, or with ?password-file=FILE in the URL of --to"
    case .refused(132, let name), .refused(1, let name):
      return "\(place) does not support MQTT 5 (\(name))"
    case .refused(142, _):
      return
        "another process took over this session at \(place); publish a directory or device by one process "
        + "only, and give each collector its own --name"
    case .refused(let reason, let name):
      return "\(place) refused (\(name), \(reason)); see its log for the reason"
    case .other(let why): return "\(place): \(why); check that it runs and is an MQTT broker"
    }
  }
}

extension String {
  /// Returns whether the text contains a word.
  fileprivate func has(_ word: String) -> Bool {
    let (text, word) = (Array(utf8), Array(word.utf8))
    guard text.count >= word.count else { return false }
    return (0...(text.count - word.count)).contains { text[$0..<($0 + word.count)].elementsEqual(word) }
  }
}

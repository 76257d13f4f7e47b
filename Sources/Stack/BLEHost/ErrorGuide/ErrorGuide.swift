public import BLELinux
public import BLEStack
public import BLEWire

/// Cause and remedy of an error code. One set of tables covers the codes of the kernel, the controller and
/// the device.
///
/// A command that fails ends with one line: the error, then the remedy.
public struct ErrorGuide: Hashable, Sendable {
  /// Cause of the code.
  public let cause: String
  /// Advice for the user, to be printed after a semicolon.
  public let remedy: String

  /// Parses a table. Each line has one code, or several with the same meaning: `key key | cause | remedy`.
  static func table(_ text: String) -> [String: ErrorGuide] {
    var table: [String: ErrorGuide] = [:]
    for line in text.split(separator: "\n") {
      let parts = line.split(separator: "|").map { trimmed($0) }
      precondition(parts.count == 3, "no row of a guide: \(line)")
      for key in parts[0].split(separator: " ") {
        let guide = ErrorGuide(cause: parts[1], remedy: parts[2])
        precondition(table.updateValue(guide, forKey: String(key)) == nil, "twice in a guide: \(key)")
      }
    }
    return table
  }

  private static func trimmed(_ text: Substring) -> String {
    let start = text.drop { $0 == " " }
    guard let last = start.lastIndex(where: { $0 != " " }) else { return "" }
    return String(start[...last])
  }

  /// The key of a code: two lower-case hexadecimal digits.
  static func key(_ code: UInt8) -> String {
    let digits = String(code, radix: 16)
    return digits.utf8.count == 1 ? "0" + digits : digits
  }
}

extension HCIStatus {
  /// Explains the status; `nil` for success and for codes that no version up to Core 5.4 defines.
  public var guide: ErrorGuide? { ErrorGuide.controller[ErrorGuide.key(rawValue)] }

  /// `Command Disallowed (0xc)`.
  package var text: String { "\(name) (0x\(String(rawValue, radix: 16)))" }
}

extension ManagementStatus {
  /// Explains the status; `nil` for success and for codes that Linux 6.1 does not have.
  public var guide: ErrorGuide? { ErrorGuide.management[ErrorGuide.key(rawValue)] }

  package var text: String { "\(name) (0x\(String(rawValue, radix: 16)))" }
}

extension ATTErrorCode {
  /// Explains the error; `nil` for reserved codes.
  public var guide: ErrorGuide? {
    ErrorGuide.attribute[(0x80...0x9F).contains(rawValue) ? "80-9f" : ErrorGuide.key(rawValue)]
  }
}

extension PairingFailure {
  /// Explains the failure; `nil` for reserved codes.
  public var guide: ErrorGuide? { ErrorGuide.pairing[ErrorGuide.key(rawValue)] }
}

extension SystemError {
  /// Explains the error number. Prefers the meaning for this call to the general one. `nil` only for a number
  /// that Linux does not name.
  public var guide: ErrorGuide? { ErrorGuide.system["\(name)@\(call)"] ?? ErrorGuide.system[name] }
}

extension GATTError {
  /// Advice for the code or its category, if there is any.
  public var remedy: String? {
    switch self {
    case .refused(let error): error.code.guide?.remedy
    case .timedOut, .closed(.transactionTimeout):
      "bring the device near and connect again; restart it if it happens again"
    case .closed(.linkLost(.silence)): "bring the device near; check its battery"
    case .closed(.linkLost(.closedByPeer)): "wake the device, or disconnect other hosts from it"
    case .closed(.linkLost(.controllerReset)): "connect again; if it happens again, replug the adapter"
    case .closed(.linkLost(.unknown)): "bring the device near and connect again"
    case .closed(.encryptionLost):
      "connect again; if it happens again, another device may be using the address"
    case .closed(.silent): "switch the device off and on; check its battery"
    case .malformed, .closed(.answersNotTaken):
      "this is a fault of the device: look for newer firmware, and record a log (`btmon -w FILE`)"
    case .valueTooLong: "write less, or use a device that accepts a larger MTU"
    case .writeNotVerified: "write again"
    case .cannotSign: "pair with the device (`ringtap pair ADDRESS`) and store its keys"
    case .notSupported: "`ringtap gatt ADDRESS` shows what each characteristic supports"
    case .cancelled, .closed(.closedLocally): nil
    }
  }
}

extension PairingError {
  /// Advice; `nil` if the description already includes it.
  public var remedy: String? {
    switch self {
    case .refused(let reason), .failed(let reason): reason.guide?.remedy
    case .notEncrypted(let status): status.guide?.remedy
    case .timedOut: "bring the device near, put it into pairing mode, and connect again"
    case .identityRefused, .weakerThanBond:
      "if you have reset or replaced the device, run `ringtap pair --forget ADDRESS` and pair again"
    case .notSecureConnections: "look for newer firmware, or accept legacy pairing"
    case .tooSoon: "wait half a minute and try again"
    case .linkLost: "bring the device near and try again"
    case .cancelled: nil
    }
  }
}

extension ErrorGuide {
  /// Joins a description and a remedy, if there is one.
  package static func text(_ what: String, _ remedy: String?) -> String {
    remedy.map { "\(what); \($0)" } ?? what
  }
}

import Testing

/// Peers and pairing methods of `SecurityTests`.
extension InTestKernel.SecurityTests {
  nonisolated enum Mode: String, CustomTestStringConvertible {
    /// In addition to the kernel's host.
    case raw
    /// Instead of the kernel's host, on the user channel of hci0.
    case exclusive
    /// The mode that fits hci0.
    case automatic

    var testDescription: String { rawValue }
    var arguments: [String] {
      switch self {
      case .raw, .exclusive: ["--adapter", "hci0", "--mode", rawValue]
      case .automatic: ["--adapter", "hci0"]
      }
    }
  }

  /// A pairing: options of both sides, and the expected result.
  nonisolated struct Case: CustomTestStringConvertible, Sendable {
    let testDescription: String
    let own: [String]
    let peer: [String]
    let isAuthenticated: Bool
    let isSecure: Bool

    init(
      _ name: String, _ own: [String], _ peer: String..., authenticated: Bool = true, secure: Bool = true
    ) {
      testDescription = name
      self.own = own
      self.peer = peer
      isAuthenticated = authenticated
      isSecure = secure
    }

    /// Whether our side displays the passkey and bumble types it.
    var isTypedThere: Bool { peer.contains("keyboard") }
  }

  nonisolated static let cases = [
    Case("Just Works", [], authenticated: false),
    Case("legacy Just Works", [], "--legacy", authenticated: false, secure: false),
    Case("numeric comparison", ["--yes"], "--capability", "yes-no", "--mitm"),
    Case(
      "passkey that bumble shows", ["--passkey", "19283"], "--capability", "display", "--mitm", "--passkey",
      "19283"),
    Case("passkey that we show", ["--yes"], "--capability", "keyboard", "--mitm"),
    Case(
      "legacy passkey that bumble shows", ["--passkey", "19283"], "--capability", "display", "--mitm",
      "--legacy", "--passkey", "19283", secure: false),
    Case(
      "legacy passkey that we show", ["--yes"], "--capability", "keyboard", "--mitm", "--legacy",
      secure: false),
  ]

  /// A pairing with BlueZ's daemon, by its agent's capability.
  nonisolated struct BluetoothdCase: CustomTestStringConvertible, Sendable {
    let testDescription: String
    let own: [String]
    let question: String
    /// The agent's capability, by its name in BlueZ.
    var capability: String?
    var isPrivate = false
    /// Whether our side displays the passkey and the daemon's user types it.
    var isTypedThere: Bool { capability == "KeyboardOnly" }
    /// Whether the daemon displays the passkey and our user types it on a terminal.
    var isTypedHere: Bool { capability == "DisplayOnly" }
    var isAuthenticated: Bool { own.contains("--authenticated") }

    static let all = [
      Self(testDescription: "Just Works", own: [], question: "Request authorization"),
      Self(testDescription: "legacy Just Works", own: ["--legacy"], question: "Request authorization"),
      Self(
        testDescription: "numeric comparison, private addresses", own: ["--yes", "--authenticated"],
        question: "Request confirmation", isPrivate: true),
      Self(
        testDescription: "passkey that we show", own: ["--yes", "--authenticated"],
        question: "Enter passkey", capability: "KeyboardOnly"),
      Self(
        testDescription: "legacy passkey that we show", own: ["--yes", "--authenticated", "--legacy"],
        question: "Enter passkey", capability: "KeyboardOnly"),
      Self(
        testDescription: "passkey that the daemon shows", own: ["--authenticated"], question: "Passkey: ",
        capability: "DisplayOnly", isPrivate: true),
      Self(
        testDescription: "legacy passkey that the daemon shows", own: ["--authenticated", "--legacy"],
        question: "Passkey: ", capability: "DisplayOnly"),
    ]
  }
}

import BLEStack
import BLEWire
import Foundation
import Synchronization
import TestKit
import Testing

/// A pairing method, as options of bumble.
struct PairingCase: CustomTestStringConvertible, Sendable {
  let testDescription: String
  let own: IOCapability
  let arguments: [String]
  let isAuthenticated: Bool
  let isSecure: Bool

  init(
    _ name: String, _ own: IOCapability, _ arguments: String..., authenticated: Bool = false, secure: Bool
  ) {
    testDescription = name
    self.own = own
    self.arguments = arguments
    isAuthenticated = authenticated
    isSecure = secure
  }
}

/// A passkey that one side displays and the other types. A file takes the place of the user.
final class SharedNumber: Sendable {
  let path: String
  private let shown = Mutex<UInt32?>(nil)

  init() { path = FileManager.default.temporaryDirectory.path + "/ringtap-number-\(UUID().uuidString)" }
  deinit { try? FileManager.default.removeItem(atPath: path) }

  var ours: UInt32? { shown.withLock { $0 } }
  var theirs: UInt32? {
    (try? String(contentsOfFile: path, encoding: .ascii)).flatMap { UInt32($0.dropLast()) }
  }

  func agent(_ capability: IOCapability) -> PairingAgent {
    PairingAgent(
      capability,
      showPasskey: { number in
        self.shown.withLock { $0 = number }
        try? Data("\(number)\n".utf8).write(to: URL(filePath: self.path), options: .atomic)
      },
      askPasskey: {
        try? await eventually("bumble shows a number") { self.theirs != nil }
        let number = self.theirs
        self.shown.withLock { $0 = number }
        return number
      },
      compare: { number in
        self.shown.withLock { $0 = number }
        return true
      })
  }
}

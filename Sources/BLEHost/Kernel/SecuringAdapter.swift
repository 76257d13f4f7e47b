import BLECore
public import BLEStack
import BLEWire

/// An adapter whose links can be made secure: by our own Security Manager, or by the kernel's.
public protocol SecuringAdapter: Adapter {
  /// Lets links be encrypted and devices be paired with.
  func secure(_ settings: SecuritySettings) async throws(HostError)

  /// Pairs with a device that is connected.
  ///
  /// - Returns: the bond, which is kept already if the settings say where; `nil` where another program has it.
  /// - Throws: `pairing` with the reason.
  func makeBond(with connection: Connection) async throws(HostError) -> Bond?
}

extension HostAdapter: SecuringAdapter {
  /// The last keys are ours to send, and a link that ends while they wait leaves the device without any: an answer on the
  /// same link tells that it has them.
  public func makeBond(with connection: Connection) async throws(HostError) -> Bond? {
    let bond = try await pair(connection)
    let first = AttributeHandle(1)
    let request = FindInformationRequest(range: HandleRange(start: first, end: first))
    // A refusal is an answer.
    _ = try? await connection.transact([UInt8](encoding: 5) { request.encode(into: &$0) })
    return bond
  }
}

extension CoexistAdapter: SecuringAdapter {
  public func secure(_ settings: SecuritySettings) async throws(HostError) {
    try await kernel.secure(settings)
  }

  public func makeBond(with connection: Connection) async throws(HostError) -> Bond? {
    try await kernel.makeBond(with: connection)
  }
}

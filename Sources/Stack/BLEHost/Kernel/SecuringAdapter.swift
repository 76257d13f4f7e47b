import BLELinux
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

extension SecuringAdapter {
  public nonisolated var securing: (any SecuringAdapter)? { self }
}

extension HostAdapter: SecuringAdapter {
  /// How long a device has to store its keys before the link may end. The kernel leaves a link for 2 s after its last user
  /// (HCI_DISCONN_TIMEOUT).
  private static let timeToStore = Duration.milliseconds(500)

  /// The last keys are ours to send, and a link that ends while they wait leaves the device without any: an answer on the
  /// same link tells that it has them. Then it has to store them: google/bumble 0.0.236 gives that up when it hears of the
  /// last key and of the link's end at once.
  public func makeBond(with connection: Connection) async throws(HostError) -> Bond? {
    let bond = try await pair(connection)
    let first = AttributeHandle(1)
    let request = FindInformationRequest(range: HandleRange(start: first, end: first))
    // A refusal is an answer.
    _ = try? await connection.transact([UInt8](encoding: 5) { request.encode(into: &$0) })
    if bond.isBonded { try? await loop.wait(for: Self.timeToStore) }
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

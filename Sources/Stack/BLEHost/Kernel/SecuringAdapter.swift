import BLELinux
public import BLEStack
import BLEWire

/// An adapter that can encrypt links and pair, with our own Security Manager or the kernel's.
public protocol SecuringAdapter: Adapter {
  /// Enables encryption and pairing.
  func secure(_ settings: SecuritySettings) async throws(HostError)

  /// Pairs with a connected device.
  ///
  /// - Returns: The bond, already stored if the settings have a store; `nil` if another program keeps it.
  /// - Throws: `pairing` with the reason.
  func makeBond(with connection: Connection) async throws(HostError) -> Bond?
}

extension SecuringAdapter {
  public nonisolated var securing: (any SecuringAdapter)? { self }
}

extension HostAdapter: SecuringAdapter {
  /// Time that a device needs to store its keys before the link may end. The kernel keeps a link for 2 s
  /// after its last user closes it (HCI_DISCONN_TIMEOUT).
  private static let timeToStore = Duration.milliseconds(500)

  /// Pairs, then waits until the device has received and stored the keys.
  ///
  /// Our keys are the last packets of a pairing. If the link ends before they are sent, the device does not
  /// get them. A response on the same link proves that it has received them. It then needs time to store
  /// them: google/bumble 0.0.236 loses them if the link ends at the same moment as the last key arrives.
  public func makeBond(with connection: Connection) async throws(HostError) -> Bond? {
    let bond = try await pair(connection)
    let first = AttributeHandle(1)
    let request = FindInformationRequest(range: HandleRange(start: first, end: first))
    // An error response proves it too.
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

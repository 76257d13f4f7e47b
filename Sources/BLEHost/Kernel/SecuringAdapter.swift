public import BLEStack

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
  public func makeBond(with connection: Connection) async throws(HostError) -> Bond? {
    try await pair(connection)
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

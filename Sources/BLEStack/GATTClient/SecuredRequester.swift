public import BLEWire

/// Raises the security of a link: encrypts it with the bond's key, or pairs.
public protocol LinkSecurity {
  /// - Parameter code: what the server refused a request with.
  /// - Returns: whether the link is more secure than it was.
  func raise(after code: ATTErrorCode) async -> Bool
}

/// A requester that secures the link where the server asks for it, and sends the refused request once more.
///
/// Only Insufficient Authentication and Insufficient Encryption are worth it: no key is made longer and no right given
/// by another attempt. A second refusal is the caller's. Core 5.4, Vol 3, Part C, 10.3.2.
public struct SecuredRequester<Base: ATTRequester, Security: LinkSecurity>: ATTRequester {
  private let base: Base
  private let security: Security

  public init(_ base: Base, _ security: Security) {
    self.base = base
    self.security = security
  }

  public var mtu: Int { get async { await base.mtu } }

  public func transact(_ request: [UInt8]) async throws(GATTError) -> [UInt8] {
    do { return try await base.transact(request) } catch {
      guard case .refused(let response) = error,
        response.code == .insufficientAuthentication || response.code == .insufficientEncryption,
        await security.raise(after: response.code)
      else { throw error }
    }
    return try await base.transact(request)
  }

  public func send(_ command: [UInt8]) async throws(GATTError) { try await base.send(command) }
  public func beginQueuedWrite() async { await base.beginQueuedWrite() }
  public func endQueuedWrite() async { await base.endQueuedWrite() }
}

public import BLEWire

/// Signatures of messages on an unencrypted link. Core 5.4, Vol 3, Part H, 2.4.5.
extension Bond {
  /// Returns the sign counter for a message of this side, and increments it.
  ///
  /// - Returns: `nil` if no signing key was distributed to the peer, or the counter is exhausted. A new
  ///   pairing is then required.
  public mutating func takeSignCounter() -> UInt32? {
    guard localSigningKey != nil, localSignCounter < .max else { return nil }
    defer { localSignCounter += 1 }
    return localSignCounter
  }

  /// Whether the peer signed this command with its key and a counter above those of all earlier messages. If
  /// so, records the counter as used. Gaps are allowed, because messages may get lost.
  public mutating func accepts(_ command: borrowing SignedWriteCommand) -> Bool {
    guard let key = peerSigningKey else { return false }
    let counter = command.signature.u32(at: 0)
    guard counter >= peerSignCounter, counter < .max else { return false }
    let message = [UInt8](encoding: command.value.count + 3) { command.encodeMessage(into: &$0) }
    let code = SecurityToolbox.signature(of: message.span, counter: counter, key: key)
    guard code == command.signature.u64(at: 4) else { return false }
    peerSignCounter = counter + 1
    return true
  }
}

/// A signature as sent on air: the counter (4 bytes), then the authentication code (8 bytes).
public struct MessageSignature: Hashable, Sendable {
  public let counter: UInt32
  public let code: UInt64

  /// Signs a message.
  ///
  /// - Parameters:
  ///   - message: opcode, handle and value.
  ///   - counter: sign counter of this key.
  ///   - key: the signer's CSRK.
  public init(of message: Span<UInt8>, counter: UInt32, key: UInt128) {
    self.counter = counter
    code = SecurityToolbox.signature(of: message, counter: counter, key: key)
  }

  public var octets: [UInt8] {
    [UInt8](encoding: SignedWriteCommand.signatureByteCount) {
      $0.append(u32: counter)
      $0.append(u64: code)
    }
  }
}

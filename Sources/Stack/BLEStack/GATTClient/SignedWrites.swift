#if !hasFeature(Embedded)
  public import BLEWire

  /// Makes the signature of a signed write: AES-CMAC with the CSRK that the peer was given when it was bonded.
  ///
  /// Core 5.4, Vol 3, Part H, 2.4.5. It owns the sign counter, which never goes back, and keeps it with the bond before
  /// the signature is used.
  public protocol WriteSigner {
    /// - Parameter message: opcode, handle and value.
    /// - Returns: the counter (4 octets) and the code (8 octets), as they go on air; the counter has risen.
    func signature(of message: [UInt8]) async throws(GATTError) -> [UInt8]
  }

  /// Whether what is sent on a link is encrypted.
  public enum LinkEncryption: Hashable, Sendable {
    case off, on
  }

  extension ATTRequester {
    /// Signed Write Without Response, 4.9.2: at most ATT_MTU − 15 octets.
    ///
    /// On an encrypted link it is a Write Command, as encryption authenticates more. Core 5.4, Vol 3, Part C, 10.4.1.
    public func writeSigned(
      _ value: [UInt8], to handle: AttributeHandle, by signer: some WriteSigner,
      encryption: LinkEncryption = .off
    ) async throws(GATTError) {
      guard encryption == .off else { return try await writeWithoutResponse(value, to: handle) }
      let limit = await mtu - 3 - SignedWriteCommand.signatureByteCount
      guard value.count <= limit else { throw .valueTooLong(byteCount: value.count, limit: limit) }
      let zeros = [UInt8](repeating: 0, count: SignedWriteCommand.signatureByteCount)
      let message = [UInt8](encoding: value.count + 3) {
        SignedWriteCommand(handle: handle, value: value.span, signature: zeros.span).encodeMessage(into: &$0)
      }
      let signature = try await signer.signature(of: message)
      precondition(signature.count == SignedWriteCommand.signatureByteCount)
      try await send(
        [UInt8](encoding: value.count + 15) {
          SignedWriteCommand(handle: handle, value: value.span, signature: signature.span).encode(into: &$0)
        })
    }
  }
#endif

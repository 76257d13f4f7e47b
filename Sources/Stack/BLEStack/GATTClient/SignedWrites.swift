#if !hasFeature(Embedded)
  public import BLEWire

  /// Signs messages: AES-CMAC with the CSRK that was distributed to the peer when it was bonded.
  ///
  /// Core 5.4, Vol 3, Part H, 2.4.5. The signer owns the sign counter, which never decreases. It stores the
  /// counter with the bond before the signature is used.
  public protocol WriteSigner {
    /// Signs a message and increments the counter.
    ///
    /// - Parameter message: opcode, handle and value.
    /// - Returns: The counter (4 bytes) and the authentication code (8 bytes) as sent on air.
    func signature(of message: [UInt8]) async throws(GATTError) -> [UInt8]
  }

  /// Whether a link is encrypted.
  public enum LinkEncryption: Hashable, Sendable {
    case off, on
  }

  extension ATTRequester {
    /// Signed Write Without Response, 4.9.2: at most ATT_MTU − 15 bytes.
    ///
    /// On an encrypted link this sends a Write Command instead, because encryption already authenticates it.
    /// Core 5.4, Vol 3, Part C, 10.4.1.
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

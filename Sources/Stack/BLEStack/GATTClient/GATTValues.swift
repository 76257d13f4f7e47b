#if !hasFeature(Embedded)
  public import BLEWire

  /// Reads and writes values. Core 5.4, Vol 3, Part G, 4.8–4.9 and 4.12.
  extension ATTRequester {
    /// Exchange MTU, 4.3.1. Sends nothing if an exchange by either side has been made, because a client may
    /// ask only once, and some peers never respond to a second exchange (embassy-rs/trouble#619).
    ///
    /// If the server does not support the request, the MTU stays 23; that is not an error.
    public func exchangeMTU(_ receiveMTU: Int = ATT.maximumMTU) async throws(GATTError) {
      guard await mtu == ATT.defaultMTU, await !hasAskedMTU else { return }
      let request = [UInt8](encoding: 3) {
        ExchangeMTU(request: UInt16(receiveMTU)).encode(into: &$0)
      }
      _ = try await answer(to: request, orNilFor: .requestNotSupported)
    }

    /// Reads a whole value of any length: Read Request, then Read Blob Requests while the responses are full.
    /// 4.8.1 and 4.8.3.
    ///
    /// - Parameters:
    ///   - handle: value handle.
    ///   - offset: number of bytes to skip at the start; if not 0, the first request is a Read Blob too.
    public func read(
      _ handle: AttributeHandle, from offset: UInt16 = 0
    ) async throws(GATTError) -> [UInt8] {
      let request = [UInt8](encoding: 5) {
        if offset == 0 {
          ReadRequest(handle: handle).encode(into: &$0)
        } else {
          ReadBlobRequest(handle: handle, offset: offset).encode(into: &$0)
        }
      }
      var before = await mtu
      var value = Array(try await transact(request).dropFirst())
      var last = value.count
      while Int(offset) + value.count < ATT.maximumValueByteCount {
        // The MTU may have changed while the request was pending, if the peer exchanged MTUs. A response that
        // is full by either the old or the new MTU counts as full.
        let after = await mtu
        guard last == before - 1 || last == after - 1 else { break }
        before = after
        if Task.isCancelled { throw .cancelled }
        let blob = [UInt8](encoding: 5) {
          ReadBlobRequest(handle: handle, offset: offset + UInt16(value.count)).encode(into: &$0)
        }
        // At the end of a value that exactly fills the responses, the server may refuse with Attribute Not
        // Long or Invalid Offset.
        guard
          let part = try await answer(to: blob, orNilFor: .attributeNotLong, .invalidOffset)
        else { break }
        value += part.dropFirst()
        last = part.count - 1
      }
      return value
    }

    /// Writes a value and waits for the response. A long value is sent as prepared writes and verified. 4.9.3
    /// and 4.9.4.
    public func write(_ value: [UInt8], to handle: AttributeHandle) async throws(GATTError) {
      guard value.count <= ATT.maximumValueByteCount else {
        throw .valueTooLong(byteCount: value.count, limit: ATT.maximumValueByteCount)
      }
      guard value.count > (await mtu) - 3 else {
        let request = [UInt8](encoding: value.count + 3) {
          Write(request: handle, value: value.span).encode(into: &$0)
        }
        _ = try await transact(request)
        return
      }
      try await writeLong(value, to: handle)
    }

    /// Writes a value without a response. The peer may drop it. 4.9.1.
    public func writeWithoutResponse(
      _ value: [UInt8], to handle: AttributeHandle
    ) async throws(GATTError) {
      let limit = await mtu - 3
      guard value.count <= limit else { throw .valueTooLong(byteCount: value.count, limit: limit) }
      try await send(
        [UInt8](encoding: value.count + 3) {
          Write(command: handle, value: value.span).encode(into: &$0)
        })
    }

    /// Enables or disables notifications or indications. 4.10 and 4.11.
    public func configure(
      _ characteristic: GATTDatabase.Characteristic, _ configuration: ClientCharacteristicConfiguration
    ) async throws(GATTError) {
      guard let handle = characteristic.configuration else {
        throw .notSupported(characteristic.valueHandle, needs: [.notify, .indicate])
      }
      try await write([UInt8](encoding: 2) { $0.append(u16: configuration.rawValue) }, to: handle)
    }
  }

  // MARK: - Several values at once

  /// One of several attributes that were read with one request.
  public struct AttributeValue: Hashable, Sendable {
    public var handle: AttributeHandle
    public var value: [UInt8]
    /// Whether the value is complete. Read an incomplete value with a separate request.
    public var isWhole: Bool

    public init(handle: AttributeHandle, value: [UInt8], isWhole: Bool = true) {
      self.handle = handle
      self.value = value
      self.isWhole = isWhole
    }
  }

  /// Reads several values, or values whose handles are unknown. Core 5.4, Vol 3, Part G, 4.8.2, 4.8.4 and
  /// 4.8.5.
  extension ATTRequester {
    /// Reads all values of a type in a range: Read Using Characteristic UUID, 4.8.2. The result may be empty.
    ///
    /// A value as long as the response allows, min(ATT_MTU − 4, 253) bytes, counts as incomplete.
    /// - Throws: `refused` if the server refuses to send a value, even if earlier values could be read.
    public func readValues(
      of uuid: BluetoothUUID, in range: HandleRange = .all
    ) async throws(GATTError) -> [AttributeValue] {
      let limit = min(await mtu - 4, 253)
      return try await walk(range) { range in
        ReadByTypeRequest(range: range, type: uuid)
      } decode: { response, found throws(WireError) in
        let list = try ReadByTypeResponse(validating: response)
        for index in 0..<list.count {
          let value = list.value(index)
          found.append(
            AttributeValue(
              handle: list.handle(index), value: [UInt8](encoding: value.count) { $0.append(value) },
              isWhole: value.count < limit))
        }
      } extent: {
        HandleRange(start: $0.handle, end: $0.handle)
      }
    }

    /// Reads several values: Read Multiple Characteristic Values, 4.8.4. Returns the values concatenated,
    /// without separators.
    ///
    /// Use this for values of known length. The last value is truncated if the values exceed ATT_MTU − 1
    /// bytes in total.
    /// - Precondition: at least two handles.
    public func readJoined(_ handles: [AttributeHandle]) async throws(GATTError) -> [UInt8] {
      Array(try await transact(try await multiple(.readMultipleRequest, handles)).dropFirst())
    }

    /// Reads several values: Read Multiple Variable Length Characteristic Values, 4.8.5.
    ///
    /// - Returns: One value for each handle. A value that did not fit in the response has `isWhole` set to
    ///   `false`.
    /// - Precondition: at least two handles.
    public func read(_ handles: [AttributeHandle]) async throws(GATTError) -> [AttributeValue] {
      let answer = try await transact(try await multiple(.readMultipleVariableRequest, handles))
      var values: [AttributeValue] = []
      var surplus = 0
      try decoding { () throws(WireError) in
        try ReadMultipleVariableResponse(validating: answer.span).forEach { value, wholeByteCount in
          guard values.count < handles.count else {
            surplus += 1
            return
          }
          values.append(
            AttributeValue(
              handle: handles[values.count], value: [UInt8](encoding: value.count) { $0.append(value) },
              isWhole: value.count == wholeByteCount))
        }
      }
      guard surplus == 0 else {
        throw .malformed(
          WireError(
            .att, offset: 1, .lengthMismatch(claimed: handles.count, available: handles.count + surplus)))
      }
      values += handles[values.count...].map { AttributeValue(handle: $0, value: [], isWhole: false) }
      return values
    }

    private func multiple(
      _ opcode: ATTOpcode, _ handles: [AttributeHandle]
    ) async throws(GATTError) -> [UInt8] {
      let (byteCount, limit) = (1 + 2 * handles.count, await mtu)
      guard byteCount <= limit else { throw .valueTooLong(byteCount: byteCount, limit: limit) }
      return [UInt8](encoding: byteCount) { ReadMultipleRequest.encode(opcode, handles.span, into: &$0) }
    }
  }

  // MARK: - Queued writes

  /// One of several writes that the server executes together.
  public struct AttributeWrite: Hashable, Sendable {
    public var handle: AttributeHandle
    public var value: [UInt8]
    /// Offset in the attribute's value, in bytes.
    public var offset: Int

    public init(_ value: [UInt8], to handle: AttributeHandle, at offset: Int = 0) {
      self.handle = handle
      self.value = value
      self.offset = offset
    }
  }

  /// Writes through the server's queue of prepared writes. Core 5.4, Vol 3, Part F, 3.4.6 and Part G, 4.9.4
  /// and 4.9.5.
  ///
  /// The server has one queue per client. A caller that fills the queue owns it until it is executed or
  /// cancelled.
  extension ATTRequester {
    /// Writes a long value: Write Long Characteristic Value, 4.9.4. Writes from an offset on, and verifies
    /// the echo of each part.
    public func writeLong(
      _ value: [UInt8], to handle: AttributeHandle, at offset: Int = 0
    ) async throws(GATTError) {
      try await writeTogether([AttributeWrite(value, to: handle, at: offset)])
    }

    /// Writes several values: Reliable Writes, 4.9.5. Writes all values if the server has echoed each of them
    /// correctly, otherwise none.
    ///
    /// - Throws: `valueTooLong` before anything is sent; `writeNotVerified` for a wrong echo, or the server's
    ///   refusal. In each case no value is stored.
    public func writeTogether(_ writes: [AttributeWrite]) async throws(GATTError) {
      for write in writes where write.offset + write.value.count > ATT.maximumValueByteCount {
        throw .valueTooLong(
          byteCount: write.offset + write.value.count, limit: ATT.maximumValueByteCount)
      }
      await beginQueuedWrite()
      do throws(GATTError) {
        for write in writes { try await prepare(write) }
        try await execute(.write)
      } catch {
        await endQueuedWrite()
        throw error
      }
      await endQueuedWrite()
    }

    private func prepare(_ write: AttributeWrite) async throws(GATTError) {
      let part = await mtu - 5
      var start = 0
      do throws(GATTError) {
        // An empty value needs one request too.
        repeat {
          if start > 0, Task.isCancelled { throw .cancelled }
          let end = min(start + part, write.value.count)
          let request = [UInt8](encoding: end - start + 5) {
            PrepareWrite(
              request: write.handle, offset: UInt16(write.offset + start),
              value: write.value.span.extracting(start..<end)
            ).encode(into: &$0)
          }
          let echo = try await transact(request)
          guard echo.dropFirst() == request.dropFirst() else { throw .writeNotVerified(write.handle) }
          start = end
        } while start < write.value.count
      } catch {
        // Cancels the prepared writes. If that fails too, the caller still gets the first error.
        _ = try? await execute(.cancel)
        throw error
      }
    }

    private func execute(_ action: ExecuteWriteRequest.Action) async throws(GATTError) {
      _ = try await transact([UInt8](encoding: 2) { ExecuteWriteRequest(action).encode(into: &$0) })
    }
  }

  // MARK: - Signed writes

  /// Signs messages: AES-CMAC with the CSRK that was distributed to the peer when it was bonded.
  ///
  /// Core 5.4, Vol 3, Part H, 2.4.5. The signer owns the sign counter, which never decreases. The signer
  /// stores the counter with the bond before the signature is used.
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
    /// Writes a value with a signature: Signed Write Without Response, 4.9.2. At most ATT_MTU − 15 bytes.
    ///
    /// On an encrypted link, sends a Write Command instead, because encryption already authenticates the
    /// value.
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

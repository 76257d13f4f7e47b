#if !hasFeature(Embedded)
  public import BLEWire

  /// Reads and writes values. Core 5.4, Vol 3, Part G, 4.8–4.9 and 4.12.
  extension ATTRequester {
    /// Exchange MTU, 4.3.1. Call it at most once per connection. Sends nothing if an exchange by the peer has
    /// already raised the MTU, because some peers never respond to a second exchange
    /// (embassy-rs/trouble#619).
    ///
    /// If the server does not support the request, the MTU stays 23; that is not an error.
    public func exchangeMTU(_ receiveMTU: Int) async throws(GATTError) {
      guard await mtu == ATT.defaultMTU else { return }
      let request = [UInt8](encoding: 3) {
        ExchangeMTU(request: UInt16(receiveMTU)).encode(into: &$0)
      }
      _ = try await answer(to: request, orNilFor: .requestNotSupported)
    }

    /// Reads a whole value of any length: Read Request, then Read Blob as long as the responses are full.
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
#endif

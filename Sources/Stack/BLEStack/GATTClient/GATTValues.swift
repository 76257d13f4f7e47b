#if !hasFeature(Embedded)
  public import BLEWire

  /// Reading and writing values. Core 5.4, Vol 3, Part G, 4.8–4.9 and 4.12.
  extension ATTRequester {
    /// Exchange MTU, 4.3.1. At most once per connection: where the peer's own exchange has raised the MTU already,
    /// nothing is sent, as some peers never answer a second one (embassy-rs/trouble#619).
    ///
    /// A server that does not know the request leaves the MTU at 23; that is no error.
    public func exchangeMTU(_ receiveMTU: Int) async throws(GATTError) {
      guard await mtu == ATT.defaultMTU else { return }
      let request = [UInt8](encoding: 3) {
        ExchangeMTU(request: UInt16(receiveMTU)).encode(into: &$0)
      }
      _ = try await answer(to: request, orNilFor: .requestNotSupported)
    }

    /// A whole value, however long: Read Request, then Read Blob while answers are full. 4.8.1 and 4.8.3.
    ///
    /// - Parameters:
    ///   - handle: of the value.
    ///   - offset: octets from the start that are left out; with any, the first request is a Read Blob too.
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
        // The peer's own MTU exchange may cross the answer, which is full if it is so by either MTU.
        let after = await mtu
        guard last == before - 1 || last == after - 1 else { break }
        before = after
        if Task.isCancelled { throw .cancelled }
        let blob = [UInt8](encoding: 5) {
          ReadBlobRequest(handle: handle, offset: offset + UInt16(value.count)).encode(into: &$0)
        }
        // A value that exactly fills the answers may be ended by Not Long or Invalid Offset.
        guard
          let part = try await answer(to: blob, orNilFor: .attributeNotLong, .invalidOffset)
        else { break }
        value += part.dropFirst()
        last = part.count - 1
      }
      return value
    }

    /// Writes a value and waits for the answer; a long one as prepared writes, verified. 4.9.3 and 4.9.4.
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

    /// Writes a value without an answer: it may be lost at the peer. 4.9.1.
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

    /// Turns notifications or indications on or off. 4.10 and 4.11.
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

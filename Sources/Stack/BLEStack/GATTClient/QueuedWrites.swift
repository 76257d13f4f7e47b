#if !hasFeature(Embedded)
  public import BLEWire

  /// A write to one attribute, made together with writes to others.
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
    /// Write Long Characteristic Value, 4.9.4: writes the value from an offset on, and verifies the echo of
    /// each part.
    public func writeLong(
      _ value: [UInt8], to handle: AttributeHandle, at offset: Int = 0
    ) async throws(GATTError) {
      try await writeTogether([AttributeWrite(value, to: handle, at: offset)])
    }

    /// Reliable Writes, 4.9.5: writes all values if the server has echoed each of them correctly, otherwise
    /// none.
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
#endif

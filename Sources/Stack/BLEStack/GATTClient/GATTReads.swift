#if !hasFeature(Embedded)
  public import BLEWire

  /// One of several attributes that were read with one request.
  public struct AttributeValue: Hashable, Sendable {
    public var handle: AttributeHandle
    public var value: [UInt8]
    /// Whether the value is complete. If not, read it with a request of its own.
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
    /// Read Using Characteristic UUID, 4.8.2: every value of that type in a range; may be empty.
    ///
    /// A value as long as the response allows, min(ATT_MTU − 4, 253) bytes, counts as incomplete.
    /// - Throws: The refusal of a value, even if earlier values could be read.
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

    /// Read Multiple Characteristic Values, 4.8.4: the values concatenated, without separators.
    ///
    /// Use it for values of known length. The last value is truncated if the values exceed ATT_MTU − 1 bytes
    /// in total.
    /// - Precondition: at least two handles.
    public func readJoined(_ handles: [AttributeHandle]) async throws(GATTError) -> [UInt8] {
      Array(try await transact(try await multiple(.readMultipleRequest, handles)).dropFirst())
    }

    /// Read Multiple Variable Length Characteristic Values, 4.8.5.
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
#endif

#if !hasFeature(Embedded)
  public import BLEWire

  /// One attribute of several that were read at once.
  public struct AttributeValue: Hashable, Sendable {
    public var handle: AttributeHandle
    public var value: [UInt8]
    /// Whether the value is all that the attribute has. A part is ended by reading the handle by itself.
    public var isWhole: Bool

    public init(handle: AttributeHandle, value: [UInt8], isWhole: Bool = true) {
      self.handle = handle
      self.value = value
      self.isWhole = isWhole
    }
  }

  /// Reading several values, or values whose handles are not known. Core 5.4, Vol 3, Part G, 4.8.2, 4.8.4 and 4.8.5.
  extension ATTRequester {
    /// Read Using Characteristic UUID, 4.8.2: every value of that type in a range; none is an empty list.
    ///
    /// A value that fills its place in the answer, min(ATT_MTU − 4, 253) octets, counts as a part of one.
    /// - Throws: what refuses a value, also where others before it could be read.
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

    /// Read Multiple Characteristic Values, 4.8.4: the values end to end, with nothing between them.
    ///
    /// For values of known lengths; the last is cut where ATT_MTU − 1 octets do not hold all.
    /// - Precondition: two handles or more.
    public func readJoined(_ handles: [AttributeHandle]) async throws(GATTError) -> [UInt8] {
      Array(try await transact(try await multiple(.readMultipleRequest, handles)).dropFirst())
    }

    /// Read Multiple Variable Length Characteristic Values, 4.8.5.
    ///
    /// - Returns: as many values as handles; what did not fit into the answer is not whole.
    /// - Precondition: two handles or more.
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

#if !hasFeature(Embedded)
  public import BLEWire

  /// The descriptors that describe a characteristic's value. Core 5.4, Vol 3, Part G, 3.3.3.
  public struct CharacteristicDetails: Hashable, Sendable {
    public var extendedProperties: CharacteristicExtendedProperties?
    public var userDescription: String?
    /// Formats of the value; if it has several parts, one format per part, in the order of the parts.
    public var formats: [CharacteristicPresentationFormat] = []

    public init() {}
  }

  extension ATTRequester {
    /// Discover Characteristics by UUID, 4.6.2. Reads all characteristic declarations as in 4.6.1, because no
    /// request finds characteristics by UUID.
    public func discoverCharacteristics(
      _ uuid: BluetoothUUID, in range: HandleRange
    ) async throws(GATTError) -> [GATTDatabase.Characteristic] {
      try await discoverCharacteristics(in: range).filter { $0.uuid == uuid }
    }

    /// Reads the descriptors that describe the value. Skips those that the server refuses to send.
    ///
    /// - Throws: `malformed` for a descriptor with an invalid value.
    public func readDetails(
      of characteristic: GATTDatabase.Characteristic
    ) async throws(GATTError) -> CharacteristicDetails {
      var details = CharacteristicDetails()
      for descriptor in characteristic.descriptors {
        switch descriptor.uuid {
        case .characteristicExtendedProperties:
          guard let value = try await readIfAllowed(descriptor.handle) else { continue }
          details.extendedProperties = try decoding { () throws(WireError) in
            try CharacteristicExtendedProperties(validating: value.span)
          }
        case .characteristicUserDescription:
          guard let value = try await readIfAllowed(descriptor.handle) else { continue }
          details.userDescription = String(decoding: value, as: UTF8.self)
        default: break
        }
      }
      details.formats = try await readFormats(of: characteristic)
      return details
    }

    /// The presentation formats, in the order of the aggregate format if there is one.
    private func readFormats(
      of characteristic: GATTDatabase.Characteristic
    ) async throws(GATTError) -> [CharacteristicPresentationFormat] {
      var handles = characteristic.descriptors.filter { $0.uuid == .characteristicPresentationFormat }
        .map(\.handle)
      let aggregate = characteristic.descriptors.first { $0.uuid == .characteristicAggregateFormat }
      if let aggregate, let value = try await readIfAllowed(aggregate.handle) {
        handles = try decoding { () throws(WireError) in
          let list = try CharacteristicAggregateFormat(validating: value.span)
          return (0..<list.count).map { list[$0] }
        }
      }
      var formats: [CharacteristicPresentationFormat] = []
      for handle in handles {
        guard let value = try await readIfAllowed(handle) else { continue }
        formats.append(
          try decoding { () throws(WireError) in
            try CharacteristicPresentationFormat(validating: value.span)
          })
      }
      return formats
    }

    private func readIfAllowed(_ handle: AttributeHandle) async throws(GATTError) -> [UInt8]? {
      do { return try await read(handle) } catch {
        guard case .refused = error else { throw error }
        return nil
      }
    }
  }
#endif

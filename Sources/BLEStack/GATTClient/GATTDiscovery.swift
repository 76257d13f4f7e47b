#if !hasFeature(Embedded)
  public import BLECore
  public import BLEWire

  /// Discovery. Core 5.4, Vol 3, Part G, 4.4–4.7.
  ///
  /// Each walk asks again from the last found handle + 1, ends at Attribute Not Found or at the end of its range,
  /// and fails where a server answers with handles that do not rise or lie outside what was asked: that would
  /// go round for ever.
  extension ATTRequester {
    /// The whole database: services with includes, characteristics and descriptors.
    public func discoverDatabase() async throws(GATTError) -> GATTDatabase {
      var services = try await discoverServices(.primary)
      services += try await discoverServices(.secondary)
      services.sort { $0.range.start < $1.range.start }
      for index in services.indices {
        services[index].includes = try await findIncludedServices(in: services[index].range)
        services[index].characteristics = try await discoverWholeCharacteristics(in: services[index].range)
      }
      return GATTDatabase(services: services)
    }

    /// The first primary service with that UUID, with its characteristics and descriptors, without the rest of the database.
    public func discoverService(
      _ uuid: BluetoothUUID
    ) async throws(GATTError) -> GATTDatabase.Service? {
      guard var service = try await firstPrimaryService(uuid) else { return nil }
      service.characteristics = try await discoverWholeCharacteristics(in: service.range)
      return service
    }

    /// With their descriptors.
    func discoverWholeCharacteristics(
      in range: HandleRange
    ) async throws(GATTError) -> [GATTDatabase.Characteristic] {
      var characteristics = try await discoverCharacteristics(in: range)
      for index in characteristics.indices {
        characteristics[index].descriptors = try await discoverDescriptors(of: characteristics[index])
      }
      return characteristics
    }

    /// Some characteristics of a service, as far as a stream needs them: declarations until all of these are found, and what
    /// turns on the values of those that have any. What else the service has is left out, and where the last one ends.
    ///
    /// A ring's, with the smallest MTU, take three requests: the service, two declarations.
    ///
    /// - Parameters:
    ///   - uuids: those that are not there are left out of the result.
    ///   - service: the first primary one of this UUID.
    /// - Returns: `nil` where there is no such service.
    public func findCharacteristics(
      _ uuids: [BluetoothUUID], in service: BluetoothUUID
    ) async throws(GATTError) -> GATTDatabase.Service? {
      guard var found = try await firstPrimaryService(service) else { return nil }
      let characteristics = try await discoverCharacteristics(in: found.range) { found in
        uuids.allSatisfy { uuid in found.contains { $0.uuid == uuid } }
      }
      for uuid in uuids {
        guard var characteristic = characteristics.first(where: { $0.uuid == uuid }) else { continue }
        if characteristic.properties.contains(.notify) || characteristic.properties.contains(.indicate) {
          characteristic.descriptors = try await findConfiguration(of: characteristic)
        }
        found.characteristics.append(characteristic)
      }
      return found
    }

    /// The first characteristic of that UUID, whatever its service, with its descriptors; what comes behind it costs nothing.
    public func findCharacteristic(
      _ uuid: BluetoothUUID
    ) async throws(GATTError) -> GATTDatabase.Characteristic? {
      let characteristics = try await discoverCharacteristics(in: .all) { $0.contains { $0.uuid == uuid } }
      guard var found = characteristics.first(where: { $0.uuid == uuid }) else { return nil }
      found.descriptors = try await findDescriptors(of: found) { _ in false }
      return found
    }

    /// The descriptors until the one that turns values on.
    ///
    /// A characteristic with values to turn on has that descriptor (Core 5.4, Vol 3, Part G, 3.3.3.3): where it has room for
    /// one only, that is it.
    private func findConfiguration(
      of characteristic: GATTDatabase.Characteristic
    ) async throws(GATTError) -> [GATTDatabase.Descriptor] {
      if let only = characteristic.valueHandle.next, only == characteristic.endHandle {
        return [GATTDatabase.Descriptor(handle: only, uuid: .clientCharacteristicConfiguration)]
      }
      return try await findDescriptors(of: characteristic) {
        $0.contains { $0.uuid == .clientCharacteristicConfiguration }
      }
    }

    /// The descriptors of a characteristic whose end need not be known: the next declaration ends them.
    private func findDescriptors(
      of characteristic: GATTDatabase.Characteristic, until isEnough: ([GATTDatabase.Descriptor]) -> Bool
    ) async throws(GATTError) -> [GATTDatabase.Descriptor] {
      guard let start = characteristic.valueHandle.next, start <= characteristic.endHandle else { return [] }
      let declarations: [BluetoothUUID] = [.primaryService, .secondaryService, .include, .characteristic]
      let attributes = try await findInformation(HandleRange(start: start, end: characteristic.endHandle)) {
        found in
        isEnough(found) || found.contains { declarations.contains($0.uuid) }
      }
      return Array(attributes.prefix { !declarations.contains($0.uuid) })
    }

    /// Each characteristic ends before the next declaration.
    private func closeRanges(_ characteristics: inout [GATTDatabase.Characteristic]) {
      for index in characteristics.indices.dropLast() {
        characteristics[index].endHandle = AttributeHandle(
          characteristics[index + 1].handle.rawValue - 1)
      }
    }

    /// Discover All Primary Services, 4.4.1; or the same walk over secondary services.
    public func discoverServices(
      _ kind: GATTDatabase.ServiceKind
    ) async throws(GATTError) -> [GATTDatabase.Service] {
      let type = kind == .primary ? BluetoothUUID.primaryService : .secondaryService
      return try await walk(.all) { range in
        ReadByTypeRequest(range: range, groupType: type)
      } decode: { response, found throws(WireError) in
        let groups = try ReadByGroupTypeResponse(validating: response)
        for index in 0..<groups.count {
          guard let uuid = groups.uuid(index) else {
            throw WireError(.att, offset: 1, .invalidValue(UInt32(groups.entryByteCount)))
          }
          found.append(GATTDatabase.Service(kind: kind, range: groups.range(index), uuid: uuid))
        }
      } extent: {
        $0.range
      }
    }

    /// Discover Primary Service by Service UUID, 4.4.2.
    public func discoverPrimaryServices(
      _ uuid: BluetoothUUID
    ) async throws(GATTError) -> [GATTDatabase.Service] {
      try await walk(.all) { range in
        FindService(range: range, uuid: uuid)
      } decode: { response, found throws(WireError) in
        let groups = try FindByTypeValueResponse(validating: response)
        for index in 0..<groups.count {
          found.append(GATTDatabase.Service(kind: .primary, range: groups[index], uuid: uuid))
        }
      } extent: {
        $0.range
      }
    }

    /// The same, without the question whether there are more.
    private func firstPrimaryService(_ uuid: BluetoothUUID) async throws(GATTError) -> GATTDatabase.Service? {
      let request = [UInt8](encoding: 23) { FindService(range: .all, uuid: uuid).encode(into: &$0) }
      guard let response = try await answer(to: request, orNilFor: .attributeNotFound) else { return nil }
      let range = try decoding { () throws(WireError) in
        try FindByTypeValueResponse(validating: response.span)[0]
      }
      guard range.isValid else {
        throw .malformed(WireError(.att, offset: 1, .invalidValue(UInt32(range.start.rawValue))))
      }
      return GATTDatabase.Service(kind: .primary, range: range, uuid: uuid)
    }

    /// Find Included Services, 4.5.1. A 128-bit UUID is not in the reply and is read from the service.
    public func findIncludedServices(
      in range: HandleRange
    ) async throws(GATTError) -> [GATTDatabase.Include] {
      var includes: [GATTDatabase.Include] = try await walk(range) { range in
        ReadByTypeRequest(range: range, type: .include)
      } decode: { response, found throws(WireError) in
        let list = try ReadByTypeResponse(validating: response)
        for index in 0..<list.count {
          let value = list.value(index)
          guard value.count == 4 || value.count == 6 else {
            throw WireError(.att, offset: 1, .invalidValue(UInt32(list.entryByteCount)))
          }
          found.append(
            GATTDatabase.Include(
              handle: list.handle(index),
              range: HandleRange(start: value.handle(at: 0), end: value.handle(at: 2)),
              uuid: value.count == 6 ? BluetoothUUID(value.u16(at: 4)) : BluetoothUUID(0)))
        }
      } extent: {
        HandleRange(start: $0.handle, end: $0.handle)
      }
      for index in includes.indices where includes[index].uuid == BluetoothUUID(0) {
        let value = try await read(includes[index].range.start)
        includes[index].uuid = try decoding { () throws(WireError) in
          try value.span.require(16, .att)
          return value.span.uuid(at: 0, byteCount: 16) ?? BluetoothUUID(0)
        }
      }
      return includes
    }

    /// Discover All Characteristics of a Service, 4.6.1; or Discover Characteristics by UUID, 4.6.2.
    ///
    /// - Parameters:
    ///   - range: the service's.
    ///   - isEnough: ends the walk early; the last one then ends with the range, as far as is known.
    public func discoverCharacteristics(
      in range: HandleRange, until isEnough: ([GATTDatabase.Characteristic]) -> Bool = { _ in false }
    ) async throws(GATTError) -> [GATTDatabase.Characteristic] {
      var characteristics: [GATTDatabase.Characteristic] = try await walk(range, until: isEnough) { range in
        ReadByTypeRequest(range: range, type: .characteristic)
      } decode: { response, found throws(WireError) in
        let list = try ReadByTypeResponse(validating: response)
        for index in 0..<list.count {
          let declaration = try CharacteristicDeclaration(validating: list.value(index))
          found.append(
            GATTDatabase.Characteristic(
              handle: list.handle(index), properties: declaration.properties,
              valueHandle: declaration.valueHandle, endHandle: range.end, uuid: declaration.uuid))
        }
      } extent: {
        HandleRange(start: $0.handle, end: $0.handle)
      }
      closeRanges(&characteristics)
      return characteristics
    }

    /// Discover All Characteristic Descriptors, 4.7.1.
    public func discoverDescriptors(
      of characteristic: GATTDatabase.Characteristic
    ) async throws(GATTError) -> [GATTDatabase.Descriptor] {
      guard let start = characteristic.valueHandle.next, start <= characteristic.endHandle else {
        return []
      }
      return try await findInformation(HandleRange(start: start, end: characteristic.endHandle))
    }

    /// Handles and types of all attributes in a range.
    private func findInformation(
      _ range: HandleRange, until isEnough: ([GATTDatabase.Descriptor]) -> Bool = { _ in false }
    ) async throws(GATTError) -> [GATTDatabase.Descriptor] {
      try await walk(range, until: isEnough) { range in
        FindInformationRequest(range: range)
      } decode: { response, found throws(WireError) in
        let list = try FindInformationResponse(validating: response)
        for index in 0..<list.count {
          found.append(GATTDatabase.Descriptor(handle: list[index].handle, uuid: list[index].type))
        }
      } extent: {
        HandleRange(start: $0.handle, end: $0.handle)
      }
    }

    /// Asks on from the last found handle + 1, until the server finds nothing, the range is at its end or there is enough.
    func walk<Item>(
      _ range: HandleRange, until isEnough: ([Item]) -> Bool = { _ in false },
      request: (HandleRange) -> some DiscoveryRequest,
      decode: (Span<UInt8>, inout [Item]) throws(WireError) -> Void, extent: (Item) -> HandleRange
    ) async throws(GATTError) -> [Item] {
      var found: [Item] = []
      var rest = range
      while true {
        let pdu = [UInt8](encoding: 23) { request(rest).encode(into: &$0) }
        // Unsupported Group Type is how servers without secondary services may answer.
        guard
          let response = try await answer(to: pdu, orNilFor: .attributeNotFound, .unsupportedGroupType)
        else { return found }
        let known = found.count
        try decoding { () throws(WireError) in try decode(response.span, &found) }
        var last: AttributeHandle?
        for item in found[known...] {
          let extent = extent(item)
          guard rest.contains(extent.start), extent.start <= extent.end,
            last.map({ $0 < extent.start }) ?? true
          else {
            throw .malformed(
              WireError(.att, offset: 2, .invalidValue(UInt32(extent.start.rawValue))))
          }
          last = extent.end
        }
        guard let next = last?.next, next <= range.end, !isEnough(found) else { return found }
        if Task.isCancelled { throw .cancelled }
        rest = HandleRange(start: next, end: range.end)
      }
    }
  }

  /// A request that asks about a range of handles.
  protocol DiscoveryRequest {
    func encode(into output: inout OutputSpan<UInt8>)
  }

  extension ReadByTypeRequest: DiscoveryRequest {}
  extension FindInformationRequest: DiscoveryRequest {}

  /// Find By Type Value for a primary service, with its UUID as it lies on air.
  private struct FindService: DiscoveryRequest {
    let range: HandleRange
    let uuid: BluetoothUUID

    func encode(into output: inout OutputSpan<UInt8>) {
      let value = [UInt8](encoding: 16) { $0.append(uuid) }
      FindByTypeValueRequest(range: range, type: .primaryService, value: value.span)
        .encode(into: &output)
    }
  }
#endif

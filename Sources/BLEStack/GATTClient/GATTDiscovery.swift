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
      services[index].characteristics = try await discoverCharacteristics(in: services[index].range)
      for position in services[index].characteristics.indices {
        services[index].characteristics[position].descriptors = try await discoverDescriptors(
          of: services[index].characteristics[position])
      }
    }
    return GATTDatabase(services: services)
  }

  /// The first primary service with that UUID, with its characteristics and descriptors.
  ///
  /// For whoever knows the device: the types come from Find Information and only the declarations are read, so the
  /// rest of the database costs nothing. It also leaves a log without Read By Type requests, on which
  /// `btmon -r` of BlueZ 5.66 crashes.
  public func discoverService(
    _ uuid: BluetoothUUID
  ) async throws(GATTError) -> GATTDatabase.Service? {
    guard var service = try await firstPrimaryService(uuid) else { return nil }
    guard let start = service.range.start.next, start <= service.range.end else { return service }
    let attributes = try await findInformation(HandleRange(start: start, end: service.range.end))
    for attribute in attributes {
      guard attribute.uuid == .characteristic else {
        addDescriptor(attribute, to: &service)
        continue
      }
      let value = try await read(attribute.handle)
      let declaration = try decoding { () throws(WireError) in
        try CharacteristicDeclaration(validating: value.span)
      }
      service.characteristics.append(
        GATTDatabase.Characteristic(
          handle: attribute.handle, properties: declaration.properties,
          valueHandle: declaration.valueHandle, endHandle: service.range.end, uuid: declaration.uuid))
    }
    closeRanges(&service.characteristics)
    return service
  }

  private func addDescriptor(
    _ attribute: GATTDatabase.Descriptor, to service: inout GATTDatabase.Service
  ) {
    guard let last = service.characteristics.indices.last,
      attribute.handle > service.characteristics[last].valueHandle
    else { return }
    service.characteristics[last].descriptors.append(attribute)
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

  /// Discover All Characteristics of a Service, 4.6.1.
  public func discoverCharacteristics(
    in range: HandleRange
  ) async throws(GATTError) -> [GATTDatabase.Characteristic] {
    var characteristics: [GATTDatabase.Characteristic] = try await walk(range) { range in
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
    _ range: HandleRange
  ) async throws(GATTError) -> [GATTDatabase.Descriptor] {
    try await walk(range) { range in
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

  /// Asks on from the last found handle + 1, until the server finds nothing or the range is at its end.
  func walk<Item>(
    _ range: HandleRange, request: (HandleRange) -> some DiscoveryRequest,
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
      guard let next = last?.next, next <= range.end else { return found }
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

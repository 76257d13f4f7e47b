#if !hasFeature(Embedded)
  public import BLEWire

  /// Method to discover the services with a given UUID.
  public enum ServiceSearch: Hashable, Sendable {
    /// One Find By Type Value request, which finds only the services that fit in one response. The response
    /// has no field that identifies its request.
    case uuid
    /// Discovery of all primary services. The responses contain the UUIDs.
    case allServices
  }

  /// Discovery. Core 5.4, Vol 3, Part G, 4.4–4.7.
  ///
  /// Each discovery sends requests that start at the last found handle + 1. A discovery ends at Attribute Not
  /// Found or at the end of its range. To avoid an endless loop, a discovery fails if the handles in a
  /// response do not increase or lie outside the requested range.
  extension ATTRequester {
    /// Discovers the whole database: services with includes, characteristics and descriptors.
    ///
    /// Leaves out any part of a service, and the secondary services, if the server refuses to list them.
    public func discoverDatabase() async throws(GATTError) -> GATTDatabase {
      let (database, refused) = try await discoverToldDatabase()
      return GATTDatabase(services: (database.services + refused).sorted { $0.range.start < $1.range.start })
    }

    /// Discovers the whole database, and separates the services that the server refuses to describe.
    ///
    /// - Returns: The completely known services, and the services whose characteristics or descriptors the
    ///   server refused to list.
    public func discoverToldDatabase() async throws(GATTError) -> (
      GATTDatabase, refused: [GATTDatabase.Service]
    ) {
      var services = try await discoverServices(.primary)
      services +=
        try await unlessRefused { () throws(GATTError) in try await discoverServices(.secondary) } ?? []
      services.sort { $0.range.start < $1.range.start }
      var (told, refused): ([GATTDatabase.Service], [GATTDatabase.Service]) = ([], [])
      for var service in services {
        let range = service.range
        service.includes =
          try await unlessRefused { () throws(GATTError) in try await findIncludedServices(in: range) } ?? []
        let characteristics = try await unlessRefused { () throws(GATTError) in
          try await discoverCharacteristics(in: range)
        }
        var isTold = characteristics != nil
        service.characteristics = characteristics ?? []
        for index in service.characteristics.indices {
          let characteristic = service.characteristics[index]
          let descriptors = try await unlessRefused { () throws(GATTError) in
            try await discoverDescriptors(of: characteristic)
          }
          if let descriptors {
            service.characteristics[index].descriptors = descriptors
          } else {
            isTold = false
          }
        }
        if isTold { told.append(service) } else { refused.append(service) }
      }
      return (GATTDatabase(services: told), refused)
    }

    /// Runs `body` and catches refusals.
    ///
    /// - Returns: `nil` if the server refuses the request, for example because it does not support it.
    ///   Refusals for insufficient security and Database Out Of Sync are thrown.
    func unlessRefused<Value>(
      _ body: () async throws(GATTError) -> Value
    ) async throws(GATTError) -> Value? {
      do throws(GATTError) { return try await body() } catch {
        guard case .refused(let refusal) = error, !refusal.code.wantsSecurity,
          refusal.code != .databaseOutOfSync
        else { throw error }
        return nil
      }
    }

    /// Discovers primary services with one UUID, including their characteristics and descriptors. Returns
    /// only the services that fit in one response.
    public func discoverServices(
      _ uuid: BluetoothUUID
    ) async throws(GATTError) -> [GATTDatabase.Service] {
      var services = try await firstPrimaryServices(uuid)
      for index in services.indices {
        services[index].characteristics = try await discoverWholeCharacteristics(in: services[index].range)
      }
      return services
    }

    /// Calls `discoverServices`; returns `nil` if the server refuses.
    public func toldServices(_ uuid: BluetoothUUID) async throws(GATTError) -> [GATTDatabase.Service]? {
      try await unlessRefused { () throws(GATTError) in try await discoverServices(uuid) }
    }

    /// Discovers the characteristics of a service, including their descriptors.
    func discoverWholeCharacteristics(
      in range: HandleRange
    ) async throws(GATTError) -> [GATTDatabase.Characteristic] {
      var characteristics = try await discoverCharacteristics(in: range)
      for index in characteristics.indices {
        characteristics[index].descriptors = try await discoverDescriptors(of: characteristics[index])
      }
      return characteristics
    }

    /// Discovers the characteristics that a stream needs. Reads characteristic declarations until all needed
    /// characteristics are found, then the configuration descriptors of those characteristics that can notify
    /// or indicate. Skips the service's other attributes, and does not determine where the last
    /// characteristic ends.
    ///
    /// For a ring with the smallest MTU this takes four requests: one for the service, two for declarations,
    /// one for descriptors.
    ///
    /// A device may have several services or characteristics with the same UUID. Only services that have the
    /// first of `pushed` are returned.
    ///
    /// - Parameters:
    ///   - pushed: characteristics that must be able to notify or indicate. Missing characteristics are left
    ///     out of the result.
    ///   - others: characteristics that only have to exist.
    ///   - service: UUID of the primary services.
    ///   - search: method of discovering the services.
    /// - Returns: The services in which the first of `pushed` can notify or indicate. If it can notify or
    ///   indicate in no service, all services that contain it.
    public func findCharacteristics(
      _ pushed: [BluetoothUUID], with others: [BluetoothUUID] = [], in service: BluetoothUUID,
      by search: ServiceSearch = .uuid
    ) async throws(GATTError) -> [GATTDatabase.Service] {
      let candidates: [GATTDatabase.Service]
      switch search {
      case .uuid:
        candidates =
          try await unlessRefused { () throws(GATTError) in try await firstPrimaryServices(service) } ?? []
      case .allServices:
        do throws(GATTError) {
          candidates = try await discoverServices(.primary).filter { $0.uuid == service }
        } catch {
          // A refusal ends the discovery: the server has no more services to report.
          guard case .refused = error else { throw error }
          return []
        }
      }
      let found = try await examine(candidates, pushed, others)
      let able = found.filter { $0.canPush(pushed.first) }
      return able.isEmpty ? found : able
    }

    /// Discovers the characteristics in each of these services.
    private func examine(
      _ services: [GATTDatabase.Service], _ pushed: [BluetoothUUID], _ others: [BluetoothUUID]
    ) async throws(GATTError) -> [GATTDatabase.Service] {
      var result: [GATTDatabase.Service] = []
      for var service in services {
        let characteristics = try await discoverCharacteristics(in: service.range) { found in
          pushed.allSatisfy { uuid in found.contains { $0.uuid == uuid && $0.canPush } }
            && others.allSatisfy { uuid in found.contains { $0.uuid == uuid } }
        }
        for uuid in pushed + others {
          let same = characteristics.filter { $0.uuid == uuid }
          let able = same.filter(\.canPush)
          for var characteristic in able.isEmpty ? same : able {
            if characteristic.canPush {
              characteristic.descriptors = try await findConfiguration(of: characteristic)
            }
            service.characteristics.append(characteristic)
          }
        }
        if service.characteristics.contains(where: { $0.uuid == pushed.first }) { result.append(service) }
      }
      return result
    }

    /// Discovers all characteristics with a UUID, in any service, without descriptors.
    public func findCharacteristics(
      _ uuid: BluetoothUUID
    ) async throws(GATTError) -> [GATTDatabase.Characteristic] {
      try await discoverCharacteristics(in: .all).filter { $0.uuid == uuid }
    }

    /// Discovers the descriptors of a characteristic up to its Client Characteristic Configuration
    /// descriptor. The end of the characteristic need not be known. If the server refuses to list
    /// descriptors, discovers only the configuration descriptor, by its UUID.
    public func findConfiguration(
      of characteristic: GATTDatabase.Characteristic
    ) async throws(GATTError) -> [GATTDatabase.Descriptor] {
      let found = try await unlessRefused { () throws(GATTError) in
        try await findDescriptors(of: characteristic) {
          $0.contains { $0.uuid == .clientCharacteristicConfiguration }
        }
      }
      if let found { return found }
      guard let start = characteristic.valueHandle.next, start <= characteristic.endHandle else { return [] }
      let rest = HandleRange(start: start, end: characteristic.endHandle)
      let next = try await discoverCharacteristics(in: rest) { !$0.isEmpty }.first?.handle
      let end = next.map { AttributeHandle($0.rawValue - 1) } ?? rest.end
      guard start <= end else { return [] }
      let uuid = BluetoothUUID.clientCharacteristicConfiguration
      return try await readValues(of: uuid, in: HandleRange(start: start, end: end)).prefix(1).map {
        GATTDatabase.Descriptor(handle: $0.handle, uuid: uuid)
      }
    }

    /// Discovers all descriptors of a characteristic. The end of the characteristic need not be known.
    public func findDescriptors(
      of characteristic: GATTDatabase.Characteristic
    ) async throws(GATTError) -> [GATTDatabase.Descriptor] {
      try await findDescriptors(of: characteristic) { _ in false }
    }

    /// Discovers the descriptors of a characteristic whose end is unknown, up to the next declaration.
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

    /// Sets each characteristic's end to the handle before the next declaration.
    private func closeRanges(_ characteristics: inout [GATTDatabase.Characteristic]) {
      for index in characteristics.indices.dropLast() {
        characteristics[index].endHandle = AttributeHandle(
          characteristics[index + 1].handle.rawValue - 1)
      }
    }

    /// Discovers all primary services: Discover All Primary Services, 4.4.1. Discovers secondary services by
    /// the same procedure with another type.
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

    /// Discovers the primary services with one UUID: Discover Primary Service by Service UUID, 4.4.2.
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

    /// Sends only the first request of `discoverPrimaryServices`. Returns the services that fit in the
    /// response.
    private func firstPrimaryServices(
      _ uuid: BluetoothUUID
    ) async throws(GATTError) -> [GATTDatabase.Service] {
      let request = [UInt8](encoding: 23) { FindService(range: .all, uuid: uuid).encode(into: &$0) }
      guard let response = try await answer(to: request, orNilFor: .attributeNotFound) else { return [] }
      return try decoding { () throws(WireError) in
        let groups = try FindByTypeValueResponse(validating: response.span)
        var services: [GATTDatabase.Service] = []
        for index in 0..<groups.count {
          guard groups[index].isValid else {
            throw WireError(.att, offset: 1 + 4 * index, .invalidValue(UInt32(groups[index].start.rawValue)))
          }
          services.append(GATTDatabase.Service(kind: .primary, range: groups[index], uuid: uuid))
        }
        return services
      }
    }

    /// Discovers included services: Find Included Services, 4.5.1. The response omits 128-bit UUIDs, which
    /// are then read from the included service.
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

    /// Discovers characteristics: Discover All Characteristics of a Service, 4.6.1, or Discover
    /// Characteristics by UUID, 4.6.2.
    ///
    /// - Parameters:
    ///   - range: handle range of the service.
    ///   - isEnough: returns `true` to stop early. The last characteristic's end is then the end of the
    ///     range.
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

    /// Discovers descriptors: Discover All Characteristic Descriptors, 4.7.1.
    public func discoverDescriptors(
      of characteristic: GATTDatabase.Characteristic
    ) async throws(GATTError) -> [GATTDatabase.Descriptor] {
      guard let start = characteristic.valueHandle.next, start <= characteristic.endHandle else {
        return []
      }
      return try await findInformation(HandleRange(start: start, end: characteristic.endHandle))
    }

    /// Returns the handles and types of all attributes in a range.
    private func findInformation(
      _ range: HandleRange, until isEnough: ([GATTDatabase.Descriptor]) -> Bool = { _ in false }
    ) async throws(GATTError) -> [GATTDatabase.Descriptor] {
      try await walk(range, until: isEnough) { range in
        FindInformationRequest(range: range)
      } decode: { response, found throws(WireError) in
        let list = try FindInformationResponse(validating: response)
        let known = found.count
        for index in 0..<list.count {
          found.append(GATTDatabase.Descriptor(handle: list[index].handle, uuid: list[index].type))
        }
        // Some servers list attributes out of order. Each entry has its type, so sorting is safe.
        found[known...].sort { $0.handle < $1.handle }
      } extent: {
        HandleRange(start: $0.handle, end: $0.handle)
      }
    }

    /// Sends requests, each from the last found handle + 1, until the server finds no more, the range ends,
    /// or `isEnough` returns `true`.
    func walk<Item>(
      _ range: HandleRange, until isEnough: ([Item]) -> Bool = { _ in false },
      request: (HandleRange) -> some DiscoveryRequest,
      decode: (Span<UInt8>, inout [Item]) throws(WireError) -> Void, extent: (Item) -> HandleRange
    ) async throws(GATTError) -> [Item] {
      var found: [Item] = []
      var rest = range
      while true {
        let pdu = [UInt8](encoding: 23) { request(rest).encode(into: &$0) }
        // Servers without secondary services may respond with Unsupported Group Type.
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

  /// A request for a range of handles.
  protocol DiscoveryRequest {
    func encode(into output: inout OutputSpan<UInt8>)
  }

  extension ReadByTypeRequest: DiscoveryRequest {}
  extension FindInformationRequest: DiscoveryRequest {}

  /// Find By Type Value for a primary service, with its UUID in transmission order.
  private struct FindService: DiscoveryRequest {
    let range: HandleRange
    let uuid: BluetoothUUID

    func encode(into output: inout OutputSpan<UInt8>) {
      let value = [UInt8](encoding: 16) { $0.append(uuid) }
      FindByTypeValueRequest(range: range, type: .primaryService, value: value.span)
        .encode(into: &output)
    }
  }

  /// The descriptors that describe a characteristic's value. Core 5.4, Vol 3, Part G, 3.3.3.
  public struct CharacteristicDetails: Hashable, Sendable {
    public var extendedProperties: CharacteristicExtendedProperties?
    public var userDescription: String?
    /// Formats of the value. A value with several parts has one format per part, in the order of the parts.
    public var formats: [CharacteristicPresentationFormat] = []

    public init() {}
  }

  extension ATTRequester {
    /// Discovers the characteristics with one UUID: Discover Characteristics by UUID, 4.6.2. Reads all
    /// characteristic declarations as in 4.6.1, because no request finds characteristics by UUID.
    public func discoverCharacteristics(
      _ uuid: BluetoothUUID, in range: HandleRange
    ) async throws(GATTError) -> [GATTDatabase.Characteristic] {
      try await discoverCharacteristics(in: range).filter { $0.uuid == uuid }
    }

    /// Reads the descriptors that describe the value. Skips descriptors that the server refuses to send.
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

    /// Returns the presentation formats, in the order of the aggregate format if it exists.
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

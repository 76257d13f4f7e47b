import BLEDissector
import BLEWire

/// A server's attributes as known from a log, sufficient to answer a client whose requests differ from those
/// of the recorded client.
///
/// An attribute that the recorded client did not discover does not exist. If the recorded client skipped
/// discovery, because it had discovered the server earlier, attribute types are inferred from the format of
/// the values.
struct RecordedAttributes: Sendable {
  /// The 16-bit UUID of a primary service in wire order. Core 5.4, Vol 3, Part G, 3.
  private static let primaryService: [UInt8] = [0x00, 0x28]
  private static let characteristic: [UInt8] = [0x03, 0x28]
  private static let clientConfiguration: [UInt8] = [0x02, 0x29]

  private struct Attribute: Sendable {
    /// The UUID, 2 or 16 bytes in wire order.
    var type: [UInt8]?
    var value: [UInt8]?
    /// End group handle, for a service declaration.
    var groupEnd: UInt16?
  }

  private var attributes: [UInt16: Attribute] = [:]

  // MARK: From the log

  /// Learns attributes from the packets that contain a request and its response.
  mutating func learn(_ request: ReplayPacket, _ response: ReplayPacket) {
    guard let asked = ReplayRole.attributePDU(request.octets),
      let answered = ReplayRole.attributePDU(response.octets)
    else { return }
    learn(asked, answered)
  }

  /// Learns attributes from the PDUs of a request and its response.
  mutating func learn(_ request: [UInt8], _ response: [UInt8]) {
    guard let asked = request.first, response.first == asked &+ 1 else { return }
    switch ATTOpcode(rawValue: asked) {
    case .findInformationRequest: learnTypes(response)
    case .findByTypeValueRequest where request.count >= 7: learnServices(request, response)
    case .readByTypeRequest where request.count >= 7: learnValues(Array(request[5...]), response, header: 2)
    case .readByGroupTypeRequest where request.count >= 7:
      learnValues(Array(request[5...]), response, header: 4)
    case .readRequest where request.count == 3:
      attributes[request.span.u16(at: 1), default: Attribute()].value = Array(response[1...])
    case .readBlobRequest where request.count == 5: learnPart(request, response)
    default: break
    }
  }

  private mutating func learnTypes(_ response: [UInt8]) {
    guard response.count > 2 else { return }
    let byteCount = response[1] == 1 ? 4 : 18
    for entry in Self.entries(response[2...], byteCount) {
      attributes[entry.span.u16(at: 0), default: Attribute()].type = Array(entry[2...])
    }
  }

  private mutating func learnServices(_ request: [UInt8], _ response: [UInt8]) {
    for entry in Self.entries(response[1...], 4) {
      attributes[entry.span.u16(at: 0)] = Attribute(
        type: Array(request[5...6]), value: Array(request[7...]), groupEnd: entry.span.u16(at: 2))
    }
  }

  private mutating func learnValues(_ type: [UInt8], _ response: [UInt8], header: Int) {
    guard response.count > 2, Int(response[1]) >= header else { return }
    for entry in Self.entries(response[2...], Int(response[1])) {
      let handle = entry.span.u16(at: 0)
      attributes[handle, default: Attribute()].type = type
      // A value that fills the PDU may be incomplete.
      if attributes[handle]?.value == nil { attributes[handle]?.value = Array(entry[header...]) }
      if header == 4 { attributes[handle]?.groupEnd = entry.span.u16(at: 2) }
      // A characteristic declaration has properties, value handle and UUID.
      if type == Self.characteristic, entry.count >= 7 {
        attributes[entry.span.u16(at: 3), default: Attribute()].type = Array(entry[5...])
      }
    }
  }

  private mutating func learnPart(_ request: [UInt8], _ response: [UInt8]) {
    let (handle, offset) = (request.span.u16(at: 1), Int(request.span.u16(at: 3)))
    guard let known = attributes[handle]?.value, known.count == offset else { return }
    attributes[handle]?.value = known + response[1...]
  }

  private static func entries(_ octets: ArraySlice<UInt8>, _ byteCount: Int) -> [[UInt8]] {
    stride(from: octets.startIndex, to: octets.endIndex - byteCount + 1, by: byteCount).map {
      Array(octets[$0..<$0 + byteCount])
    }
  }

  // MARK: From values

  /// Whether the log contains a characteristic declaration. If the log contains one, attributes that are not
  /// in the log do not exist.
  var hasDeclarations: Bool { attributes.values.contains { $0.type == Self.characteristic } }

  /// Adds values whose types are not in the log. Assumes the usual layout: the declaration right before the
  /// value and, if the value can be notified or indicated, the Client Characteristic Configuration descriptor
  /// right after it.
  mutating func assume(_ values: [(handle: AttributeHandle, uuid: BluetoothUUID)]) {
    var services: [BluetoothUUID: ClosedRange<UInt16>] = [:]
    let taken = Set(values.map(\.handle.rawValue))
    for (handle, type) in values.sorted(by: { $0.handle.rawValue < $1.handle.rawValue }) {
      let value = handle.rawValue
      guard let declaration = AttributeDeclaration(of: type), value > 2, !taken.contains(value - 1) else {
        continue
      }
      attributes[value - 1] = Attribute(
        type: Self.characteristic,
        value: [declaration.properties.rawValue] + Self.octets(value) + Self.octets(type))
      attributes[value, default: Attribute()].type = Self.octets(type)
      var last = value
      if !declaration.properties.isDisjoint(with: [.notify, .indicate]), value < .max,
        !taken.contains(value + 1)
      {
        attributes[value + 1, default: Attribute()].type = Self.clientConfiguration
        last = value + 1
      }
      let known = services[declaration.service]
      services[declaration.service] = (known?.lowerBound ?? value - 2)...last
    }
    for (service, range) in services where attributes[range.lowerBound] == nil {
      attributes[range.lowerBound] = Attribute(
        type: Self.primaryService, value: Self.octets(service), groupEnd: range.upperBound)
    }
  }

  // MARK: To a client

  /// Returns the server's response to a request, as a PDU for the default ATT_MTU.
  ///
  /// - Returns: `nil` if the log does not have the information.
  func answer(_ request: [UInt8]) -> [UInt8]? {
    let octets = request.span
    guard let asked = request.first else { return nil }
    switch ATTOpcode(rawValue: asked) {
    // Without an MTU exchange in the log, the default MTU stays.
    case .exchangeMTURequest: return Self.refusal(asked, 0, .requestNotSupported)
    // The recorded client did not write this descriptor. Servers accept a write of this descriptor.
    case .writeRequest where request.count == 5:
      let isConfiguration = attributes[octets.u16(at: 1)]?.type == Self.clientConfiguration
      return isConfiguration ? [ATTOpcode.writeResponse.rawValue] : nil
    case .readRequest where request.count == 3: return read(octets.u16(at: 1), from: 0, 0x0B)
    case .readBlobRequest where request.count == 5:
      return read(octets.u16(at: 1), from: Int(octets.u16(at: 3)), 0x0D)
    case .findInformationRequest where request.count == 5:
      return list(request) { attribute, handle in
        guard let type = attribute.type else { return nil }
        return handle + type
      } header: {
        [0x05, $0 == 4 ? 1 : 2]
      }
    case .findByTypeValueRequest where request.count >= 7:
      return list(request) { attribute, handle in
        guard let end = attribute.groupEnd, attribute.type == Array(request[5...6]),
          attribute.value == Array(request[7...])
        else { return nil }
        return handle + Self.octets(end)
      } header: { _ in
        [0x07]
      }
    case .readByTypeRequest where request.count >= 7:
      return list(request) { attribute, handle in
        guard attribute.type == Array(request[5...]), let value = attribute.value else { return nil }
        return handle + value.prefix(ATT.defaultMTU - 4)
      } header: {
        [0x09, UInt8($0)]
      }
    case .readByGroupTypeRequest where request.count >= 7:
      return list(request) { attribute, handle in
        guard attribute.type == Array(request[5...]), let end = attribute.groupEnd,
          let value = attribute.value
        else { return nil }
        return handle + Self.octets(end) + value
      } header: {
        [0x11, UInt8($0)]
      }
    default: return nil
    }
  }

  private func read(_ handle: UInt16, from offset: Int, _ opcode: UInt8) -> [UInt8]? {
    guard let value = attributes[handle]?.value, offset <= value.count else { return nil }
    return [opcode] + value[offset...].prefix(ATT.defaultMTU - 1)
  }

  /// Returns as many entries of one length as fit into a PDU, or Attribute Not Found if no attribute matches.
  private func list(
    _ request: [UInt8], _ entry: (Attribute, [UInt8]) -> [UInt8]?, header: (Int) -> [UInt8]
  ) -> [UInt8]? {
    guard attributes.values.contains(where: { $0.type != nil }) else { return nil }
    let (first, last) = (request.span.u16(at: 1), request.span.u16(at: 3))
    var list: [UInt8] = []
    var byteCount = 0
    for handle in attributes.keys.sorted() where handle >= first && handle <= last {
      guard let attribute = attributes[handle], let entry = entry(attribute, Self.octets(handle)) else {
        continue
      }
      if byteCount == 0 { byteCount = entry.count }
      guard entry.count == byteCount, 2 + list.count + byteCount <= ATT.defaultMTU else { break }
      list += entry
    }
    if list.isEmpty { return Self.refusal(request[0], first, .attributeNotFound) }
    return header(byteCount) + list
  }

  /// Returns the Error Response to a request that the log cannot answer. Discovery ends after the attributes
  /// in the log. Reading a value that is not in the log fails with Unlikely Error.
  ///
  /// - Returns: an Error Response, Core 5.4, Vol 3, Part F, 3.4.1.1; `nil` if the PDU is not a request.
  static func refusal(_ request: [UInt8]) -> [UInt8]? {
    guard let asked = request.first, ATTOpcode(rawValue: asked).kind == .request else { return nil }
    let handle = request.count >= 3 ? request.span.u16(at: 1) : 0
    switch ATTOpcode(rawValue: asked) {
    case .findInformationRequest, .findByTypeValueRequest, .readByTypeRequest, .readByGroupTypeRequest:
      return refusal(asked, handle, .attributeNotFound)
    case .readRequest, .readBlobRequest, .writeRequest: return refusal(asked, handle, .unlikelyError)
    default: return refusal(asked, 0, .requestNotSupported)
    }
  }

  private static func refusal(_ opcode: UInt8, _ handle: UInt16, _ code: ATTErrorCode) -> [UInt8] {
    [0x01, opcode] + octets(handle) + [code.rawValue]
  }

  /// Encodes the UUID in wire order.
  private static func octets(_ uuid: BluetoothUUID) -> [UInt8] {
    [UInt8](encoding: uuid.byteCount) { $0.append(uuid) }
  }

  private static func octets(_ number: UInt16) -> [UInt8] {
    [UInt8(truncatingIfNeeded: number), UInt8(number >> 8)]
  }
}

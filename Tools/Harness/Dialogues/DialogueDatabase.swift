import BLEEmulation
import BLEStack
import BLEWire

/// Answers a client's discovery requests from a dialogue's database, one entry at a time.
///
/// A dialogue does not list these requests, because the client chooses which to use, and in which order. This
/// server is independent of `ATTServer`, so that a bug in `ATTServer` cannot hide a bug of a client.
struct DialogueDatabase {
  let attributes: [ATTDialogue.Attribute]
  /// Whether reads of values are answered, in addition to discovery.
  var readsValues = false

  /// Answers a request.
  ///
  /// - Returns: `nil` for a PDU that does not belong to discovery.
  func answer(_ pdu: Span<UInt8>) -> [UInt8]? {
    guard !attributes.isEmpty, pdu.count > 0 else { return nil }
    let opcode = ATTOpcode(rawValue: pdu[0])
    switch opcode {
    case .findInformationRequest, .findByTypeValueRequest, .readByTypeRequest, .readByGroupTypeRequest:
      guard pdu.count >= 5 else { return nil }
      let range = HandleRange(start: pdu.handle(at: 1), end: pdu.handle(at: 3))
      guard range.isValid else { return refusal(opcode, range.start, .invalidHandle) }
      return search(opcode, pdu, range) ?? refusal(opcode, range.start, .attributeNotFound)
    case .readRequest: return declaration(pdu)
    default: return nil
    }
  }

  private func search(_ opcode: ATTOpcode, _ pdu: Span<UInt8>, _ range: HandleRange) -> [UInt8]? {
    switch opcode {
    case .findInformationRequest:
      guard let found = attributes.first(where: { range.contains($0.handle) }) else { return nil }
      return [UInt8](encoding: 22) {
        $0.append(ATTOpcode.findInformationResponse.rawValue)
        $0.append(found.type.byteCount == 2 ? 1 : 2)
        $0.append(found.handle)
        $0.append(found.type)
      }
    case .findByTypeValueRequest:
      guard let request = try? FindByTypeValueRequest(validating: pdu) else { return nil }
      let wanted = [UInt8](encoding: request.value.count) { $0.append(request.value) }
      let found = attributes.first {
        range.contains($0.handle) && $0.type == request.type && $0.value == wanted
      }
      guard let found else { return nil }
      return [UInt8](encoding: 5) {
        $0.append(ATTOpcode.findByTypeValueResponse.rawValue)
        $0.append(found.range.start)
        $0.append(found.range.end)
      }
    default:
      guard let request = try? ReadByTypeRequest(validating: pdu) else { return nil }
      let isGroup = opcode == .readByGroupTypeRequest
      guard
        let found = attributes.first(where: { range.contains($0.handle) && $0.type == request.type })
      else { return nil }
      let value = found.value.prefix(isGroup ? 17 : 19)
      return [UInt8](encoding: 2 + 4 + value.count) {
        $0.append(opcode.rawValue + 1)
        $0.append(UInt8(value.count) + (isGroup ? 4 : 2))
        $0.append(found.range.start)
        if isGroup { $0.append(found.range.end) }
        for octet in value { $0.append(octet) }
      }
    }
  }

  /// Answers a read of a declaration or of the extended properties. Such reads belong to discovery; reads of
  /// other values do not.
  private func declaration(_ pdu: Span<UInt8>) -> [UInt8]? {
    guard let request = try? ReadRequest(validating: pdu),
      let found = attributes.first(where: { $0.handle == request.handle })
    else { return nil }
    switch found.type {
    case .primaryService, .secondaryService, .include, .characteristic, .characteristicExtendedProperties:
      return [ATTOpcode.readResponse.rawValue] + found.value
    default: return readsValues ? [ATTOpcode.readResponse.rawValue] + found.value : nil
    }
  }

  private func refusal(
    _ opcode: ATTOpcode, _ handle: AttributeHandle, _ code: ATTErrorCode
  ) -> [UInt8] {
    [UInt8](encoding: ErrorResponse.byteCount) {
      ErrorResponse(request: opcode, handle: handle, code: code).encode(into: &$0)
    }
  }
}

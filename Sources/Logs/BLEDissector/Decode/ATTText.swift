import BLEWire
import JSONText

/// Prints an ATT PDU as text. Core 5.4, Vol 3, Part F, 3.4.
enum ATTText {
  static func print(_ att: borrowing DecodedATT, into text: inout PacketText) {
    let name = ATTNames.pdu(att.opcode.rawValue)
    text.line(6, "ATT: \(name) (0x\(hexadecimal(att.opcode.rawValue))) len \(att.parameters.count)")
    if let problem = att.problem {
      text.malformed(8, "\(problem)", att.parameters)
      return
    }
    // Each case reads only bytes that the decoder has validated, or validates further bytes itself.
    if !printList(att, into: &text) { printValue(att, into: &text) }
  }

  private static func printValue(_ att: borrowing DecodedATT, into text: inout PacketText) {
    if let handle = att.handle { text.line(8, "Handle: \(attribute(handle, att.uuid))") }
    if let offset = att.offset { text.line(8, "Offset: \(PacketText.hex(UInt64(offset), digits: 4))") }
    if let value = att.value {
      text.line(10, "Data: \(PacketText.hex(value))")
      if let said = att.said(for: .anyone) { text.print(said, 10) }
    } else if att.hasOtherParameters, att.handle == nil {
      text.dump(8, att.parameters)
    }
    if att.opcode == .signedWriteCommand, att.parameters.count >= 12 {
      text.line(10, "Signature: \(PacketText.hex(att.parameters.extracting(last: 12)))")
    }
  }

  static func attribute(_ handle: AttributeHandle, _ uuid: BluetoothUUID?) -> String {
    let number = PacketText.hex(handle)
    guard let uuid else { return number }
    return "\(number) \(PacketText.uuid(uuid))"
  }

  /// Prints a PDU that does not contain the value of a single attribute, and returns whether it did.
  private static func printList(_ att: borrowing DecodedATT, into text: inout PacketText) -> Bool {
    let octets = att.parameters
    switch att.opcode {
    case .errorResponse: printError(att, into: &text)
    case .exchangeMTURequest where octets.count == 2:
      text.line(8, "Client RX MTU: \(octets.u16(at: 0))")
    case .exchangeMTUResponse where octets.count == 2:
      text.line(8, "Server RX MTU: \(octets.u16(at: 0))")
    case .executeWriteRequest where octets.count == 1:
      text.line(
        8,
        "Flags: \(octets[0] == 0 ? "Cancel all prepared writes" : "Write all pending") (0x\(hexadecimal(octets[0])))"
      )
    case .findInformationRequest, .readByTypeRequest, .readByGroupTypeRequest, .findByTypeValueRequest:
      printSearch(att, into: &text)
    case .findInformationResponse: printInformation(octets, into: &text)
    case .findByTypeValueResponse: printRanges(octets, into: &text)
    case .readByTypeResponse: printTyped(att, into: &text)
    case .readByGroupTypeResponse: printGroups(octets, into: &text)
    case .readMultipleRequest, .readMultipleVariableRequest:
      for index in 0..<octets.count / 2 {
        text.line(8, "Handle: \(PacketText.hex(octets.handle(at: 2 * index)))")
      }
    case .multipleHandleValueNotification: printUpdates(octets, into: &text)
    default: return false
    }
    return true
  }

  private static func printError(_ att: borrowing DecodedATT, into text: inout PacketText) {
    let octets = att.parameters
    guard octets.count == 4 else { return text.dump(8, octets) }
    let asked = ATTNames.pdu(octets[0])
    text.line(8, "\(asked) (0x\(hexadecimal(octets[0])))")
    text.line(8, "Handle: \(attribute(octets.handle(at: 1), att.uuid))")
    text.line(8, "Error: \(ATTNames.error(octets[3])) (0x\(hexadecimal(octets[3])))")
  }

  private static func printRange(_ octets: Span<UInt8>, at offset: Int, into text: inout PacketText) {
    let (start, end) = (octets.handle(at: offset), octets.handle(at: offset + 2))
    text.line(8, "Handle range: \(PacketText.hex(start))-\(PacketText.hex(end))")
  }

  private static func printSearch(_ att: borrowing DecodedATT, into text: inout PacketText) {
    let octets = att.parameters
    guard octets.count >= 4 else { return text.dump(8, octets) }
    printRange(octets, at: 0, into: &text)
    if att.opcode == .findByTypeValueRequest, octets.count >= 6 {
      text.line(8, "Attribute type: \(PacketText.uuid(BluetoothUUID(octets.u16(at: 4))))")
      let value = octets.extracting(6...)
      if let uuid = value.uuid(at: 0, byteCount: value.count) {
        text.line(10, "UUID: \(PacketText.uuid(uuid))")
      } else {
        text.line(10, "Value: \(PacketText.hex(value))")
      }
    } else if let uuid = octets.uuid(at: 4, byteCount: octets.count - 4) {
      let label = att.opcode == .readByTypeRequest ? "Attribute type" : "Attribute group type"
      text.line(8, "\(label): \(PacketText.uuid(uuid))")
    } else {
      text.dump(8, octets.extracting(4...))
    }
  }

  private static func printInformation(_ octets: Span<UInt8>, into text: inout PacketText) {
    let byteCount = octets[0] == 1 ? 2 : 16
    text.line(8, "Format: \(byteCount == 2 ? "UUID-16" : "UUID-128") (0x\(hexadecimal(octets[0])))")
    for index in 0..<(octets.count - 1) / (2 + byteCount) {
      let offset = 1 + index * (2 + byteCount)
      text.line(8, "Handle: \(PacketText.hex(octets.handle(at: offset)))")
      if let uuid = octets.uuid(at: offset + 2, byteCount: byteCount) {
        text.line(8, "UUID: \(PacketText.uuid(uuid))")
      }
    }
  }

  private static func printRanges(_ octets: Span<UInt8>, into text: inout PacketText) {
    for index in 0..<octets.count / 4 { printRange(octets, at: 4 * index, into: &text) }
  }

  private static func printTyped(_ att: borrowing DecodedATT, into text: inout PacketText) {
    let octets = att.parameters
    let byteCount = Int(octets[0])
    guard byteCount >= 2 else { return text.dump(8, octets) }
    let count = (octets.count - 1) / byteCount
    text.line(8, "Attribute data length: \(byteCount)")
    text.line(8, "Attribute data list: \(count) \(count == 1 ? "entry" : "entries")")
    for index in 0..<count {
      let entry = octets.extracting(1 + index * byteCount..<1 + (index + 1) * byteCount)
      text.line(8, "Handle: \(PacketText.hex(entry.handle(at: 0)))")
      let value = entry.extracting(2...)
      text.line(8, "Value: \(PacketText.hex(value))")
      let said = ValueDissector.said(value, att.askedType, in: .readResponse, for: .anyone)
      if let said { text.print(said, 10) }
    }
  }

  private static func printGroups(_ octets: Span<UInt8>, into text: inout PacketText) {
    let byteCount = Int(octets[0])
    guard byteCount >= 4 else { return text.dump(8, octets) }
    let count = (octets.count - 1) / byteCount
    text.line(8, "Attribute data length: \(byteCount)")
    text.line(8, "Attribute group list: \(count) \(count == 1 ? "entry" : "entries")")
    for index in 0..<count {
      let offset = 1 + index * byteCount
      printRange(octets, at: offset, into: &text)
      if let uuid = octets.uuid(at: offset + 4, byteCount: byteCount - 4) {
        text.line(8, "UUID: \(PacketText.uuid(uuid))")
      } else {
        text.line(8, "Value: \(PacketText.hex(octets.extracting(offset + 4..<offset + byteCount)))")
      }
    }
  }

  private static func printUpdates(_ octets: Span<UInt8>, into text: inout PacketText) {
    var offset = 0
    while octets.count - offset >= 4 {
      let count = Int(octets.u16(at: offset + 2))
      guard octets.count - offset - 4 >= count else { break }
      text.line(8, "Handle: \(PacketText.hex(octets.handle(at: offset)))")
      text.line(10, "Data: \(PacketText.hex(octets.extracting(offset + 4..<offset + 4 + count)))")
      offset += 4 + count
    }
    if offset < octets.count { text.malformed(8, "an entry is cut", octets.extracting(offset...)) }
  }
}

/// Names of PDUs and errors, spelled as in `btmon` 5.66.
enum ATTNames {
  /// Returns the name of a PDU. Core 5.4, Vol 3, Part F, 3.4.8.
  static func pdu(_ opcode: UInt8) -> String {
    switch opcode {
    case 0x20: return "Read Multiple Request Variable Length"
    case 0x21: return "Read Multiple Response Variable Length"
    case 0x23: return "Handle Multiple Value Notification"
    default:
      let opcode = ATTOpcode(rawValue: opcode)
      return opcode.isKnown ? opcode.name.description : "Unknown"
    }
  }

  /// Returns the name of an error. Core 5.4, Vol 3, Part F, 3.4.1.1.
  static func error(_ code: UInt8) -> String {
    switch code {
    case 0x0C: "Insufficient Encryption Key Size"
    case 0x12: "Database Out of Sync"
    case 0x01...0x13, 0xFC, 0xFF: ATTErrorCode(rawValue: code).name.description
    case 0x80...0x9F: "Application Error"
    case 0xFD: "CCC Improperly Configured"
    case 0xFE: "Procedure Already in Progress"
    default: "Reserved"
    }
  }
}

extension ATTOpcode {
  /// Whether the opcode is defined. Core 5.4, Vol 3, Part F, 3.4.8.
  var isKnown: Bool {
    switch rawValue {
    case 0x01...0x13, 0x16...0x19, 0x1B, 0x1D, 0x1E, 0x20, 0x21, 0x23, 0x52, 0xD2: true
    default: false
    }
  }
}

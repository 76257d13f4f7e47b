public import BLEStack
public import BLEWire

/// An oddity of a device, and the reaction of this program.
public enum LinkRemark: Hashable, Sendable {
  /// The characteristic's properties include notify or indicate, but the characteristic lacks the descriptor
  /// (2902) that enables values.
  case listeningOnly(AttributeHandle)
  /// The device refused the subscription but sends values anyway.
  case listeningDespite(AttributeHandle, GATTError)
  /// Several characteristics serve the same purpose. `taken` is the characteristic whose values are used;
  /// `nil` if the first characteristic that sends a value is used.
  case several(BluetoothUUID, [AttributeHandle], taken: AttributeHandle?)
  /// The device ended a link at this request. The request is not sent on later links.
  case notAskedAgain(LinkSuspect)
  /// The device ended a link at this request or parameter in an earlier run of the program, according to the
  /// device's file. The request is not sent.
  case notAsked(LinkSuspect)
  /// The device's attributes differ from the attributes that an earlier run of the program discovered. The
  /// attributes were discovered again.
  case attributesReplaced
}

/// Suspected cause if a device ended its link.
public enum LinkSuspect: Hashable, Sendable {
  /// An ATT request that the device did not answer.
  case request([UInt8])
  /// A request for new link parameters.
  case parameters(LinkRequest.Part)

  package var request: [UInt8]? {
    if case .request(let pdu) = self { pdu } else { nil }
  }

  /// Whether this is a subscription. A suspected subscription is first omitted, because values may arrive
  /// without it, and then sent if no values arrive.
  package var isSubscription: Bool {
    guard let pdu = request else { return false }
    return pdu.count == 5 && pdu[0] == ATTOpcode.writeRequest.rawValue && (1...3).contains(pdu[3])
      && pdu[4] == 0
  }

  /// Returns the part of a request that is common to all requests for the same purpose. If one such request
  /// made a device end its link, no request with the same topic is sent. The topic of a request for values,
  /// or for the characteristics of a service, includes handles.
  static func topic(of request: [UInt8]) -> [UInt8] {
    switch ATTOpcode(rawValue: request.first ?? 0) {
    case .exchangeMTURequest, .findInformationRequest, .findByTypeValueRequest, .readMultipleRequest,
      .readMultipleVariableRequest:
      return Array(request.prefix(1))
    case .readByTypeRequest, .readByGroupTypeRequest:
      let type = request.dropFirst(5)
      return type.elementsEqual([0x03, 0x28]) ? request : Array(request.prefix(1) + type)
    default: return request
    }
  }
}

extension LinkRemark: CustomStringConvertible {
  public var description: String {
    switch self {
    case .listeningOnly(let handle):
      "the characteristic at handle \(hex(handle)) has no descriptor that turns its values on (2902); listening all "
        + "the same"
    case .listeningDespite(let handle, let error):
      "\(error); values of handle \(hex(handle)) come all the same"
    case .several(let uuid, let handles, let taken):
      "\(counted(handles.count, "characteristic")) \(name(uuid)) can send values, at handles "
        + "\(handles.map { hex($0) }.joined(separator: ", ")); "
        + (taken.map { "using \(hex($0))" } ?? "using the first that sends")
    case .notAskedAgain(let suspect):
      "the device ended the link when it was \(suspect); it is not asked again"
    case .notAsked(let suspect):
      "the device ended an earlier link when it was \(suspect); ringtap skips this now"
    case .attributesReplaced:
      "the device's attributes differ from the stored ones; they were discovered again"
    }
  }
}

extension LinkSuspect: CustomStringConvertible {
  public var description: String {
    switch self {
    case .request(let pdu):
      switch ATTOpcode(rawValue: pdu.first ?? 0) {
      case .exchangeMTURequest: "asked for its MTU"
      case .readRequest where pdu.count >= 3, .readBlobRequest where pdu.count >= 3,
        .writeRequest where pdu.count >= 3:
        "sent a \(ATTOpcode(rawValue: pdu[0]).name) of handle \(hex(pdu.span.handle(at: 1)))"
      case let opcode: "sent a \(opcode.name)"
      }
    case .parameters(.timing): "asked for another connection interval"
    case .parameters(.phy): "asked for another PHY"
    case .parameters(.dataLength): "asked for another data length"
    }
  }
}

/// Formats a UUID, with only four digits if the SIG assigned it.
private func name(_ uuid: BluetoothUUID) -> String {
  uuid.byteCount == 2 ? String("\(uuid)".dropFirst(4).prefix(4)) : "\(uuid)"
}

private func hex(_ handle: AttributeHandle) -> String { "0x" + String(handle.rawValue, radix: 16) }

import BLEWire

/// Link Layer control PDUs that affect how a connection is followed. Core 5.4, Vol 6, Part B, 2.4.2.
enum ControlOpcode: UInt8 {
  case connectionUpdate = 0x00
  case channelMap = 0x01
  case terminate = 0x02
  case encryptionRequest = 0x03
  case encryptionResponse = 0x04
  case startEncryptionRequest = 0x05
  case startEncryptionResponse = 0x06
  case featureRequest = 0x08
  case pauseEncryptionRequest = 0x0A
  case pauseEncryptionResponse = 0x0B
  case reject = 0x0D
  case peripheralFeatureRequest = 0x0E
  case rejectExtended = 0x11
  case lengthRequest = 0x14
  case lengthResponse = 0x15
  case phyUpdate = 0x18

  /// Sender of the PDU; `nil` if either side may send it.
  var isFromCentral: Bool? {
    switch self {
    case .connectionUpdate, .channelMap, .encryptionRequest, .featureRequest, .pauseEncryptionRequest,
      .phyUpdate:
      true
    case .encryptionResponse, .startEncryptionRequest, .peripheralFeatureRequest: false
    default: nil
    }
  }

  /// Size in bytes of each PDU with its opcode, by opcode; 0 if there is no such PDU.
  private static let byteCounts: [UInt8] = [
    12, 8, 2, 23, 13, 1, 1, 2, 9, 9, 1, 1, 6, 2, 9, 24, 24, 3, 1, 1, 9, 9, 3, 3, 5, 3, 2, 0, 35, 2, 2, 36, 9,
    16, 4, 4, 5, 5,
    11, 11, 4, 0, 0,
  ]

  /// Returns whether the opcode is known and the length is exact.
  static func isExact(_ pdu: Span<UInt8>) -> Bool {
    !pdu.isEmpty && Int(pdu[0]) < byteCounts.count && Int(byteCounts[Int(pdu[0])]) == pdu.count
  }

  /// Returns whether the length is plausible for the opcode.
  static func isPlausible(_ pdu: Span<UInt8>) -> Bool {
    guard !pdu.isEmpty else { return false }
    // Opcodes of later versions are plausible too: the limit exceeds the current number of opcodes by more
    // than half.
    guard Int(pdu[0]) < byteCounts.count else { return pdu[0] < 0x48 }
    let byteCount = Int(byteCounts[Int(pdu[0])])
    // LL_CTE_RSP has no fixed length, and later versions have extended other PDUs.
    return byteCount == 0 || pdu.count == byteCount || pdu.count > byteCount && pdu[0] >= 0x1C
  }
}

/// Changes that both sides have agreed on, but that are not in effect yet.
struct LinkProcedures {
  /// PHYs as in HCI commands, as bit masks.
  struct PHYs {
    var toPeripheral: UInt8
    var toCentral: UInt8
    var instant: UInt16
  }

  /// Maximum packet lengths that a side receives and sends.
  struct Lengths {
    var receiveOctets: UInt16
    var receiveTime: UInt16
    var transmitOctets: UInt16
    var transmitTime: UInt16

    init?(_ pdu: Span<UInt8>) {
      guard pdu.count >= 9 else { return nil }
      receiveOctets = pdu.u16(at: 1)
      receiveTime = pdu.u16(at: 3)
      transmitOctets = pdu.u16(at: 5)
      transmitTime = pdu.u16(at: 7)
    }
  }

  var timing: (parameters: LinkParameters, instant: UInt16)?
  var map: (channels: UInt64, instant: UInt16)?
  var phy: PHYs?
  private var central: Lengths?
  private var peripheral: Lengths?

  /// The immediate effect of a control PDU.
  enum Effect: Hashable {
    case none
    case terminated(reason: UInt8)
    /// Data length as reported to the central's host.
    case dataLength(transmit: UInt16, transmitTime: UInt16, receive: UInt16, receiveTime: UInt16)
  }

  /// Handles a PDU with data lengths.
  ///
  /// - Returns: the resulting data length, if the PDU is the response to the other side's request.
  mutating func take(lengths pdu: Span<UInt8>, isFromCentral: Bool) -> Effect {
    if isFromCentral { central = Lengths(pdu) } else { peripheral = Lengths(pdu) }
    guard pdu[0] == ControlOpcode.lengthResponse.rawValue, let central, let peripheral else { return .none }
    return .dataLength(
      transmit: min(central.transmitOctets, peripheral.receiveOctets),
      transmitTime: min(central.transmitTime, peripheral.receiveTime),
      receive: min(central.receiveOctets, peripheral.transmitOctets),
      receiveTime: min(central.receiveTime, peripheral.transmitTime))
  }
}

extension AirConnection {
  /// Handles a control PDU that is not encrypted.
  func take(control pdu: Span<UInt8>, isFromCentral: Bool) -> LinkProcedures.Effect {
    guard ControlOpcode.isPlausible(pdu), let opcode = ControlOpcode(rawValue: pdu[0]) else { return .none }
    switch opcode {
    case .connectionUpdate:
      let parameters = LinkParameters(
        interval: pdu.u16(at: 4), latency: pdu.u16(at: 6), supervisionTimeout: pdu.u16(at: 8))
      procedures.timing = (parameters, pdu.u16(at: 10))
      changeInterval(parameters.interval, at: pdu.u16(at: 10))
    case .channelMap: procedures.map = (pdu.channelMap(at: 1), pdu.u16(at: 6))
    case .phyUpdate:
      procedures.phy = .init(toPeripheral: pdu[1], toCentral: pdu[2], instant: pdu.u16(at: 3))
    case .terminate:
      isTerminated = true
      return .terminated(reason: pdu[1])
    case .encryptionRequest: if let start = EncryptionStart(request: pdu) { encryption.begin(start) }
    case .encryptionResponse: encryption.start?.take(response: pdu)
    case .startEncryptionRequest: if encryption.start?.isAnswered == true { turnOn() }
    case .reject, .rejectExtended:
      // The reject PDU rejects encryption if the other side requested encryption.
      if !encryption.isOn, pdu[0] == ControlOpcode.reject.rawValue || pdu[1] == 0x03 {
        encryption.start = nil
      }
    case .lengthRequest, .lengthResponse: return procedures.take(lengths: pdu, isFromCentral: isFromCentral)
    case .featureRequest, .peripheralFeatureRequest, .startEncryptionResponse, .pauseEncryptionRequest,
      .pauseEncryptionResponse:
      break
    }
    return .none
  }
}

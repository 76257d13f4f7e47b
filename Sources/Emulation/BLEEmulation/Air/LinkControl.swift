import BLEWire

/// Control PDUs between the two link layers. Core 5.4, Vol 6, Part B, 2.4.2.
enum LinkControl {
  case terminate(HCIStatus)
  /// Not a PDU: when this item is next in the queue, the device disappears.
  case vanish
  case connectionUpdate(LinkParameters)
  case phyRequest(PHYWish)
  case phyResponse(PHYWish)
  case phyUpdate(PHYChange)
  case lengthRequest(DataLength)
  case lengthResponse(DataLength)
  case featureRequest, featureResponse
  case versionRequest, versionResponse
  case encryptionRequest(LinkEncryption)
  /// The peripheral's key, or `nil`. Only compared; a real link layer does not send it.
  case encryptionAnswer(UInt128?)
  case encryptionStart

  /// Payload length in bytes, including the opcode.
  var byteCount: Int {
    switch self {
    case .vanish: 0
    case .encryptionStart: 1
    case .encryptionRequest: 23
    case .encryptionAnswer: 13
    case .terminate: 2
    case .phyRequest, .phyResponse: 3
    case .phyUpdate: 5
    case .versionRequest, .versionResponse: 6
    case .lengthRequest, .lengthResponse, .featureRequest, .featureResponse: 9
    case .connectionUpdate: 12
    }
  }

  /// Whether the change is made at a connection event that the PDU specifies. Only one such procedure runs at
  /// a time.
  var hasInstant: Bool {
    switch self {
    case .connectionUpdate, .phyUpdate: true
    default: false
    }
  }
}

/// PHYs that one end accepts, as bits: 1 is LE 1M, 2 is LE 2M.
struct PHYWish: Hashable {
  var transmit: UInt8
  var receive: UInt8

  static let any = PHYWish(transmit: 3, receive: 3)
}

struct PHYChange: Hashable {
  var toPeripheral: LEPHY
  var toCentral: LEPHY

  /// Chooses the fastest PHYs that both ends accept. A direction without a common PHY is unchanged.
  init(central: PHYWish, peripheral: PHYWish, now link: AirLink) {
    func chosen(_ bits: UInt8, _ current: LEPHY) -> LEPHY {
      bits & 2 != 0 ? .le2M : bits & 1 != 0 ? .le1M : current
    }
    toPeripheral = chosen(central.transmit & peripheral.receive, link.central.phy)
    toCentral = chosen(central.receive & peripheral.transmit, link.peripheral.phy)
  }
}

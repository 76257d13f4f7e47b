import BLEWire

/// Control PDUs between the two link layers. Core 5.4, Vol 6, Part B, 2.4.2.
enum LinkControl {
  case terminate(HCIStatus)
  /// Not a PDU: the device disappears when its turn comes.
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
  /// The key is not sent; it is the key of the peripheral, or `nil`, for comparison.
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

  /// Whether it takes effect at a connection event that it specifies; only one such procedure runs at a time.
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

  /// The fastest PHYs that both ends accept; a direction without a common PHY is unchanged.
  init(central: PHYWish, peripheral: PHYWish, now link: AirLink) {
    func chosen(_ bits: UInt8, _ current: LEPHY) -> LEPHY {
      bits & 2 != 0 ? .le2M : bits & 1 != 0 ? .le1M : current
    }
    toPeripheral = chosen(central.transmit & peripheral.receive, link.central.phy)
    toCentral = chosen(central.receive & peripheral.transmit, link.peripheral.phy)
  }
}

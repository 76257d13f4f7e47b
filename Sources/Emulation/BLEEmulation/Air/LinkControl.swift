import BLEWire

/// What the two link layers tell each other. Core 5.4, Vol 6, Part B, 2.4.2.
enum LinkControl {
  case terminate(HCIStatus)
  /// Not said at all: the device is gone when its turn comes.
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
  /// The key is not in the packet: it is what both ends have, or have not.
  case encryptionAnswer(UInt128?)
  case encryptionStart

  /// Octets of the packet's payload, opcode first.
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

  /// Takes effect at a connection event that it names; only one of these at a time.
  var hasInstant: Bool {
    switch self {
    case .connectionUpdate, .phyUpdate: true
    default: false
    }
  }
}

/// PHYs that one end would use, as bits: 1 is LE 1M, 2 is LE 2M.
struct PHYWish: Hashable {
  var transmit: UInt8
  var receive: UInt8

  static let any = PHYWish(transmit: 3, receive: 3)
}

struct PHYChange: Hashable {
  var toPeripheral: LEPHY
  var toCentral: LEPHY

  /// The fastest that both ends want; a direction without one stays as it is.
  init(central: PHYWish, peripheral: PHYWish, now link: AirLink) {
    func chosen(_ bits: UInt8, _ current: LEPHY) -> LEPHY {
      bits & 2 != 0 ? .le2M : bits & 1 != 0 ? .le1M : current
    }
    toPeripheral = chosen(central.transmit & peripheral.receive, link.central.phy)
    toCentral = chosen(central.receive & peripheral.transmit, link.peripheral.phy)
  }
}

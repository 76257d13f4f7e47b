package import BLEWire

// Names for text and JSON. They are in this module because the wire layer does not need them. They are
// `String`, not `StaticString`, because printing a `String` literal needs no allocation.

extension HCIDirection {
  /// Value of `direction` in JSON.
  package var name: String {
    switch self {
    case .hostToController: "hostToController"
    case .controllerToHost: "controllerToHost"
    }
  }
}

extension HCIPacketType {
  /// Value of `packetType` in JSON.
  package var name: String {
    switch self {
    case .command: "command"
    case .event: "event"
    case .acl: "acl"
    case .sco: "sco"
    case .iso: "iso"
    case .vendor: "vendor"
    default: "unknown"
    }
  }

  package var title: String {
    switch self {
    case .command: "HCI Command"
    case .event: "HCI Event"
    case .acl: "ACL Data"
    case .sco: "SCO Data"
    case .iso: "ISO Data"
    case .vendor: "Vendor"
    default: "Unknown packet"
    }
  }
}

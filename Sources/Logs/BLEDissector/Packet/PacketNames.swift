package import BLEWire

// Words for people and for JSON. They live here, with the printer, and not in the wire layer, where no
// program needs them. `String`, not `StaticString`: a literal is printed without an allocation.

extension HCIDirection {
  /// The value of `direction` in JSON.
  package var name: String {
    switch self {
    case .hostToController: "hostToController"
    case .controllerToHost: "controllerToHost"
    }
  }
}

extension HCIPacketType {
  /// The value of `packetType` in JSON.
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

import BLECore
import BLEWire

// Words for people and for JSON. They live here, with the printer, and not in the wire layer, where no
// program needs them.

extension HCIDirection {
  /// The value of `direction` in JSON.
  var name: StaticString {
    switch self {
    case .hostToController: "hostToController"
    case .controllerToHost: "controllerToHost"
    }
  }
}

extension HCIPacketType {
  /// The value of `packetType` in JSON.
  var name: StaticString {
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

  var title: StaticString {
    switch self {
    case .command: "Command"
    case .event: "Event"
    case .acl: "ACL Data"
    case .sco: "SCO Data"
    case .iso: "ISO Data"
    case .vendor: "Vendor"
    default: "Unknown packet"
    }
  }
}

extension HCIOpcode {
  /// Core 5.4, Vol 4, Part E, 7: the commands of this stack and its everyday neighbours.
  var name: StaticString {
    switch self {
    case .disconnect: "Disconnect"
    case .readRemoteVersionInformation: "Read Remote Version Information"
    case .setEventMask: "Set Event Mask"
    case .reset: "Reset"
    case .writeLEHostSupport: "Write LE Host Support"
    case .readLocalVersion: "Read Local Version Information"
    case .readLocalSupportedCommands: "Read Local Supported Commands"
    case .readLocalSupportedFeatures: "Read Local Supported Features"
    case .readBufferSize: "Read Buffer Size"
    case .readBDADDR: "Read BD_ADDR"
    case .leSetEventMask: "LE Set Event Mask"
    case .leReadBufferSize: "LE Read Buffer Size"
    case .leReadLocalSupportedFeatures: "LE Read Local Supported Features"
    case .leSetRandomAddress: "LE Set Random Address"
    case .leSetScanParameters: "LE Set Scan Parameters"
    case .leSetScanEnable: "LE Set Scan Enable"
    case .leCreateConnection: "LE Create Connection"
    case .leCreateConnectionCancel: "LE Create Connection Cancel"
    case .leConnectionUpdate: "LE Connection Update"
    case .leReadRemoteFeatures: "LE Read Remote Features"
    case .leSetExtendedScanParameters: "LE Set Extended Scan Parameters"
    case .leSetExtendedScanEnable: "LE Set Extended Scan Enable"
    default: rawValue >> 10 == 0x3F ? "vendor command" : "other command"
    }
  }
}

extension HCIEventCode {
  /// Core 5.4, Vol 4, Part E, 7.7.
  var name: StaticString {
    switch rawValue {
    case 0x03: "Connection Complete"
    case 0x05: "Disconnection Complete"
    case 0x08: "Encryption Change"
    case 0x0C: "Read Remote Version Information Complete"
    case 0x0E: "Command Complete"
    case 0x0F: "Command Status"
    case 0x10: "Hardware Error"
    case 0x13: "Number of Completed Packets"
    case 0x1A: "Data Buffer Overflow"
    case 0x30: "Encryption Key Refresh Complete"
    case 0x3E: "LE Meta"
    case 0xFF: "vendor event"
    default: "other event"
    }
  }
}

extension LESubevent {
  /// Core 5.4, Vol 4, Part E, 7.7.65.
  var name: StaticString {
    switch rawValue {
    case 0x01: "Connection Complete"
    case 0x02: "Advertising Report"
    case 0x03: "Connection Update Complete"
    case 0x04: "Read Remote Features Complete"
    case 0x05: "Long Term Key Request"
    case 0x06: "Remote Connection Parameter Request"
    case 0x07: "Data Length Change"
    case 0x0A: "Enhanced Connection Complete"
    case 0x0C: "PHY Update Complete"
    case 0x0D: "Extended Advertising Report"
    case 0x12: "Advertising Set Terminated"
    case 0x14: "Channel Selection Algorithm"
    default: "other subevent"
    }
  }
}

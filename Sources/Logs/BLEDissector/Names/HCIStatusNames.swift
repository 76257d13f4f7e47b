import BLEPacketLog
import BLEWire

/// HCI error codes, spelled as in `btmon` 5.66.
enum HCIStatusNames {
  static func name(of status: HCIStatus) -> String {
    if let name = names[UInt16(status.rawValue)] { return name }
    let name = "\(status.name)"
    guard name == "other" else { return name }
    return status.rawValue > 0x45 ? "Unknown" : "Reserved"
  }

  /// Names that differ from `HCIStatus.name`.
  private static let names = PacketLayout.names(text)

  private static let text = """
    0b ACL Connection Already Exists
    14 Remote Device Terminated due to Low Resources
    15 Remote Device Terminated due to Power Off
    16 Connection Terminated By Local Host
    1a Unsupported Remote Feature / Unsupported LMP Feature
    1e Invalid LMP Parameters / Invalid LL Parameters
    20 Unsupported LMP Parameter Value / Unsupported LL Parameter Value
    22 LMP Response Timeout / LL Response Timeout
    23 LMP Error Transaction Collision
    30 Parameter Out Of Manadatory Range
    """
}

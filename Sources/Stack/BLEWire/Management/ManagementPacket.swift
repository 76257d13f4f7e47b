/// A packet to or from the kernel's management interface: code, adapter, length, parameters.
///
/// BlueZ, `doc/mgmt-api.txt`, "Packet Structures"; Linux, `include/net/bluetooth/mgmt.h`, `struct mgmt_hdr`.
@frozen public struct ManagementPacket: ~Escapable {
  public static let headerByteCount = 6

  /// Opcode of a command or code of an event, depending on the direction.
  public let code: UInt16
  /// Index of the adapter: 0 for `hci0`.
  public let index: UInt16
  public let parameters: Span<UInt8>

  @_lifetime(copy parameters)
  @inlinable public init(code: UInt16, index: UInt16, parameters: Span<UInt8>) {
    self.code = code
    self.index = index
    self.parameters = parameters
  }

  @_lifetime(copy packet)
  @inlinable public init(validating packet: Span<UInt8>) throws(WireError) {
    try packet.require(Self.headerByteCount, .management)
    let claimed = Int(packet.u16(at: 4))
    guard packet.count - Self.headerByteCount == claimed else {
      throw WireError(
        .management, offset: 4,
        .lengthMismatch(claimed: claimed, available: packet.count - Self.headerByteCount))
    }
    code = packet.u16(at: 0)
    index = packet.u16(at: 2)
    parameters = packet.extracting(Self.headerByteCount...)
  }

  @inlinable public func encode(into output: inout OutputSpan<UInt8>) {
    output.append(u16: code)
    output.append(u16: index)
    output.append(u16: UInt16(truncatingIfNeeded: parameters.count))
    output.append(parameters)
  }
}

/// Status in the kernel's reply to a command. `mgmt-api.txt`, "Error codes". Unknown values are kept.
public struct ManagementStatus: RawRepresentable, Hashable, Sendable, BitwiseCopyable {
  public let rawValue: UInt8
  @inlinable public init(rawValue: UInt8) { self.rawValue = rawValue }

  public static let success = ManagementStatus(rawValue: 0x00)
  public static let notConnected = ManagementStatus(rawValue: 0x02)
  public static let busy = ManagementStatus(rawValue: 0x0A)
  public static let rejected = ManagementStatus(rawValue: 0x0B)
  public static let notSupported = ManagementStatus(rawValue: 0x0C)
  public static let notPowered = ManagementStatus(rawValue: 0x0F)
  public static let invalidIndex = ManagementStatus(rawValue: 0x11)
  public static let permissionDenied = ManagementStatus(rawValue: 0x14)

  /// Name of the code in `mgmt-api.txt`; `other` for an unknown code.
  public var name: StaticString {
    switch rawValue {
    case 0x00: "Success"
    case 0x01: "Unknown Command"
    case 0x02: "Not Connected"
    case 0x03: "Failed"
    case 0x04: "Connect Failed"
    case 0x05: "Authentication Failed"
    case 0x06: "Not Paired"
    case 0x07: "No Resources"
    case 0x08: "Timeout"
    case 0x09: "Already Connected"
    case 0x0A: "Busy"
    case 0x0B: "Rejected"
    case 0x0C: "Not Supported"
    case 0x0D: "Invalid Parameters"
    case 0x0E: "Disconnected"
    case 0x0F: "Not Powered"
    case 0x10: "Cancelled"
    case 0x11: "Invalid Index"
    case 0x12: "RFKilled"
    case 0x13: "Already Paired"
    case 0x14: "Permission Denied"
    default: "other"
    }
  }
}

extension Span where Element == UInt8 {
  /// Reads an address of six bytes and the kernel's address type. Returns `nil` for BR/EDR and unknown types.
  func managementAddress(at offset: Int) -> DeviceAddress? {
    switch self[offset + 6] {
    case 1: address(at: offset, type: .public)
    case 2: address(at: offset, type: .random)
    default: nil
    }
  }
}

extension OutputSpan where Element == UInt8 {
  /// Appends an address as six bytes and the kernel's address type, which starts at 1 for LE.
  mutating func append(management address: DeviceAddress) {
    append(address)
    append(address.type == .public ? 1 : 2)
  }
}

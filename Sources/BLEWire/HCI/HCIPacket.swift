/// The packet indicator of UART transports, `/dev/vhci` and HCI sockets. Core 5.4, Vol 4, Part A, 2.
public struct HCIPacketType: RawRepresentable, Hashable, Sendable, BitwiseCopyable {
  public let rawValue: UInt8
  @inlinable public init(rawValue: UInt8) { self.rawValue = rawValue }

  public static let command = HCIPacketType(rawValue: 0x01)
  public static let acl = HCIPacketType(rawValue: 0x02)
  public static let sco = HCIPacketType(rawValue: 0x03)
  public static let event = HCIPacketType(rawValue: 0x04)
  public static let iso = HCIPacketType(rawValue: 0x05)
  /// Not HCI: `/dev/vhci`'s own control packets.
  public static let vendor = HCIPacketType(rawValue: 0xFF)
}

/// Who sent a packet across the host–controller interface.
public enum HCIDirection: UInt8, Hashable, Sendable, BitwiseCopyable {
  case hostToController = 0
  case controllerToHost = 1
}

/// Why the controller refused, or why a link ended. Core 5.4, Vol 1, Part F. Unknown codes are kept.
public struct HCIStatus: RawRepresentable, Hashable, Sendable, BitwiseCopyable {
  public let rawValue: UInt8
  @inlinable public init(rawValue: UInt8) { self.rawValue = rawValue }

  public static let success = HCIStatus(rawValue: 0x00)
  public static let unknownCommand = HCIStatus(rawValue: 0x01)
  public static let unknownConnection = HCIStatus(rawValue: 0x02)
  public static let connectionTimeout = HCIStatus(rawValue: 0x08)
  public static let commandDisallowed = HCIStatus(rawValue: 0x0C)
  public static let unsupportedFeature = HCIStatus(rawValue: 0x11)
  public static let invalidParameters = HCIStatus(rawValue: 0x12)
  public static let remoteUserTerminated = HCIStatus(rawValue: 0x13)
  public static let localHostTerminated = HCIStatus(rawValue: 0x16)
  public static let unsupportedRemoteFeature = HCIStatus(rawValue: 0x1A)
  public static let unspecifiedError = HCIStatus(rawValue: 0x1F)
  public static let unacceptableConnectionParameters = HCIStatus(rawValue: 0x3B)

  /// The specification's name where this stack meets the code, else `other`.
  public var name: StaticString {
    switch rawValue {
    case 0x00: "Success"
    case 0x01: "Unknown HCI Command"
    case 0x02: "Unknown Connection Identifier"
    case 0x03: "Hardware Failure"
    case 0x05: "Authentication Failure"
    case 0x06: "PIN or Key Missing"
    case 0x07: "Memory Capacity Exceeded"
    case 0x08: "Connection Timeout"
    case 0x09: "Connection Limit Exceeded"
    case 0x0B: "Connection Already Exists"
    case 0x0C: "Command Disallowed"
    case 0x0D: "Connection Rejected due to Limited Resources"
    case 0x11: "Unsupported Feature or Parameter Value"
    case 0x12: "Invalid HCI Command Parameters"
    case 0x13: "Remote User Terminated Connection"
    case 0x14: "Remote Device Terminated Connection due to Low Resources"
    case 0x15: "Remote Device Terminated Connection due to Power Off"
    case 0x16: "Connection Terminated by Local Host"
    case 0x1A: "Unsupported Remote Feature"
    case 0x1E: "Invalid LL Parameters"
    case 0x1F: "Unspecified Error"
    case 0x22: "LL Response Timeout"
    case 0x23: "LL Procedure Collision"
    case 0x28: "Instant Passed"
    case 0x3A: "Controller Busy"
    case 0x3B: "Unacceptable Connection Parameters"
    case 0x3C: "Advertising Timeout"
    case 0x3D: "Connection Terminated due to MIC Failure"
    case 0x3E: "Connection Failed to be Established"
    default: "other"
    }
  }
}

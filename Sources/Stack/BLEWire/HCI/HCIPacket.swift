/// The packet type byte of UART transports, `/dev/vhci` and HCI sockets. Core 5.4, Vol 4, Part A, 2.
public struct HCIPacketType: RawRepresentable, Hashable, Sendable, BitwiseCopyable {
  public let rawValue: UInt8
  @inlinable public init(rawValue: UInt8) { self.rawValue = rawValue }

  public static let command = HCIPacketType(rawValue: 0x01)
  public static let acl = HCIPacketType(rawValue: 0x02)
  public static let sco = HCIPacketType(rawValue: 0x03)
  public static let event = HCIPacketType(rawValue: 0x04)
  public static let iso = HCIPacketType(rawValue: 0x05)
  /// Control packet of `/dev/vhci`; not part of HCI.
  public static let vendor = HCIPacketType(rawValue: 0xFF)
}

/// Direction of a packet between host and controller.
public enum HCIDirection: UInt8, Hashable, Sendable, BitwiseCopyable {
  case hostToController = 0
  case controllerToHost = 1
}

/// Reason why the controller refused a command, or why a link ended. Core 5.4, Vol 1, Part F. Unknown codes
/// are kept.
public struct HCIStatus: RawRepresentable, Hashable, Sendable, BitwiseCopyable {
  public let rawValue: UInt8
  @inlinable public init(rawValue: UInt8) { self.rawValue = rawValue }

  public static let success = HCIStatus(rawValue: 0x00)
  public static let unknownCommand = HCIStatus(rawValue: 0x01)
  public static let unknownConnection = HCIStatus(rawValue: 0x02)
  public static let memoryCapacityExceeded = HCIStatus(rawValue: 0x07)
  public static let connectionTimeout = HCIStatus(rawValue: 0x08)
  public static let commandDisallowed = HCIStatus(rawValue: 0x0C)
  public static let unsupportedFeature = HCIStatus(rawValue: 0x11)
  public static let invalidParameters = HCIStatus(rawValue: 0x12)
  public static let remoteUserTerminated = HCIStatus(rawValue: 0x13)
  public static let localHostTerminated = HCIStatus(rawValue: 0x16)
  public static let unsupportedRemoteFeature = HCIStatus(rawValue: 0x1A)
  public static let hardwareFailure = HCIStatus(rawValue: 0x03)
  public static let unspecifiedError = HCIStatus(rawValue: 0x1F)
  public static let unacceptableConnectionParameters = HCIStatus(rawValue: 0x3B)

  /// Name of the code in the specification; `other` for an unknown code. A code that LE shares with BR/EDR
  /// has its LE name.
  public var name: StaticString { rawValue < 0x24 ? lowName : highName }

  private var lowName: StaticString {
    switch rawValue {
    case 0x00: "Success"
    case 0x01: "Unknown HCI Command"
    case 0x02: "Unknown Connection Identifier"
    case 0x03: "Hardware Failure"
    case 0x04: "Page Timeout"
    case 0x05: "Authentication Failure"
    case 0x06: "PIN or Key Missing"
    case 0x07: "Memory Capacity Exceeded"
    case 0x08: "Connection Timeout"
    case 0x09: "Connection Limit Exceeded"
    case 0x0A: "Synchronous Connection Limit to a Device Exceeded"
    case 0x0B: "Connection Already Exists"
    case 0x0C: "Command Disallowed"
    case 0x0D: "Connection Rejected due to Limited Resources"
    case 0x0E: "Connection Rejected due to Security Reasons"
    case 0x0F: "Connection Rejected due to Unacceptable BD_ADDR"
    case 0x10: "Connection Accept Timeout Exceeded"
    case 0x11: "Unsupported Feature or Parameter Value"
    case 0x12: "Invalid HCI Command Parameters"
    case 0x13: "Remote User Terminated Connection"
    case 0x14: "Remote Device Terminated Connection due to Low Resources"
    case 0x15: "Remote Device Terminated Connection due to Power Off"
    case 0x16: "Connection Terminated by Local Host"
    case 0x17: "Repeated Attempts"
    case 0x18: "Pairing Not Allowed"
    case 0x19: "Unknown LMP PDU"
    case 0x1A: "Unsupported Remote Feature"
    case 0x1B: "SCO Offset Rejected"
    case 0x1C: "SCO Interval Rejected"
    case 0x1D: "SCO Air Mode Rejected"
    case 0x1E: "Invalid LL Parameters"
    case 0x1F: "Unspecified Error"
    case 0x20: "Unsupported LL Parameter Value"
    case 0x21: "Role Change Not Allowed"
    case 0x22: "LL Response Timeout"
    case 0x23: "LL Procedure Collision"
    default: "other"
    }
  }

  private var highName: StaticString {
    switch rawValue {
    case 0x24: "LMP PDU Not Allowed"
    case 0x25: "Encryption Mode Not Acceptable"
    case 0x26: "Link Key cannot be Changed"
    case 0x27: "Requested QoS Not Supported"
    case 0x28: "Instant Passed"
    case 0x29: "Pairing With Unit Key Not Supported"
    case 0x2A: "Different Transaction Collision"
    case 0x2C: "QoS Unacceptable Parameter"
    case 0x2D: "QoS Rejected"
    case 0x2E: "Channel Classification Not Supported"
    case 0x2F: "Insufficient Security"
    case 0x30: "Parameter Out of Mandatory Range"
    case 0x32: "Role Switch Pending"
    case 0x34: "Reserved Slot Violation"
    case 0x35: "Role Switch Failed"
    case 0x36: "Extended Inquiry Response Too Large"
    case 0x37: "Secure Simple Pairing Not Supported By Host"
    case 0x38: "Host Busy - Pairing"
    case 0x39: "Connection Rejected due to No Suitable Channel Found"
    case 0x3A: "Controller Busy"
    case 0x3B: "Unacceptable Connection Parameters"
    case 0x3C: "Advertising Timeout"
    case 0x3D: "Connection Terminated due to MIC Failure"
    case 0x3E: "Connection Failed to be Established"
    case 0x3F: "MAC Connection Failed"
    case 0x40: "Coarse Clock Adjustment Rejected but Will Try to Adjust Using Clock Dragging"
    case 0x41: "Type0 Submap Not Defined"
    case 0x42: "Unknown Advertising Identifier"
    case 0x43: "Limit Reached"
    case 0x44: "Operation Cancelled by Host"
    case 0x45: "Packet Too Long"
    default: "other"
    }
  }
}

/// Role of an HCI packet in a sequence of requests and responses. Depends only on the packet's first bytes,
/// so truncated or corrupt packets have a role too.
public enum HCIPacketRole: Hashable, Sendable {
  case command(HCIOpcode)
  /// Command Complete or Command Status of this command; opcode 0 if the event only updates the credits.
  case answer(HCIOpcode)
  /// An ATT PDU that starts in this packet.
  case att(ConnectionHandle, ATTOpcode)
  case disconnection(ConnectionHandle)
  case other

  /// Determines the role of a packet.
  ///
  /// - Parameter packet: the packet, preceded by its H4 type byte.
  public init(_ packet: Span<UInt8>) {
    self = .other
    guard packet.count > 3 else { return }
    switch HCIPacketType(rawValue: packet[0]) {
    case .command: self = .command(HCIOpcode(rawValue: packet.u16(at: 1)))
    case .event where packet.count > 6:
      switch HCIEventCode(rawValue: packet[1]) {
      case .commandComplete: self = .answer(HCIOpcode(rawValue: packet.u16(at: 4)))
      case .commandStatus: self = .answer(HCIOpcode(rawValue: packet.u16(at: 5)))
      case .disconnectionComplete: self = .disconnection(ConnectionHandle(packet.u16(at: 4)))
      default: break
      }
    // H4 type, ACL header, L2CAP header, then the PDU. Bits 12 and 13 of the handle are 1 in a continuation.
    case .acl where packet.count > 9 && packet[2] & 0x30 != 0x10 && packet.u16(at: 7) == ATT.channelID:
      self = .att(ConnectionHandle(packet.u16(at: 1)), ATTOpcode(rawValue: packet[9]))
    default: break
    }
  }
}

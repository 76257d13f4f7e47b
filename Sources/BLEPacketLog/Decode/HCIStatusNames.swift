import BLECore
import BLEWire

/// The error codes of HCI. Core 5.4, Vol 1, Part F, 1.3; the names are those of `btmon` 5.66, its spelling included.
enum HCIStatusNames {
  static let names = PacketLayout.names(text)

  static func name(of status: HCIStatus) -> String {
    names[UInt16(status.rawValue)] ?? (status.rawValue > 0x45 ? "Unknown" : "Reserved")
  }

  private static let text = """
    00 Success
    01 Unknown HCI Command
    02 Unknown Connection Identifier
    03 Hardware Failure
    04 Page Timeout
    05 Authentication Failure
    06 PIN or Key Missing
    07 Memory Capacity Exceeded
    08 Connection Timeout
    09 Connection Limit Exceeded
    0a Synchronous Connection Limit to a Device Exceeded
    0b ACL Connection Already Exists
    0c Command Disallowed
    0d Connection Rejected due to Limited Resources
    0e Connection Rejected due to Security Reasons
    0f Connection Rejected due to Unacceptable BD_ADDR
    10 Connection Accept Timeout Exceeded
    11 Unsupported Feature or Parameter Value
    12 Invalid HCI Command Parameters
    13 Remote User Terminated Connection
    14 Remote Device Terminated due to Low Resources
    15 Remote Device Terminated due to Power Off
    16 Connection Terminated By Local Host
    17 Repeated Attempts
    18 Pairing Not Allowed
    19 Unknown LMP PDU
    1a Unsupported Remote Feature / Unsupported LMP Feature
    1b SCO Offset Rejected
    1c SCO Interval Rejected
    1d SCO Air Mode Rejected
    1e Invalid LMP Parameters / Invalid LL Parameters
    1f Unspecified Error
    20 Unsupported LMP Parameter Value / Unsupported LL Parameter Value
    21 Role Change Not Allowed
    22 LMP Response Timeout / LL Response Timeout
    23 LMP Error Transaction Collision
    24 LMP PDU Not Allowed
    25 Encryption Mode Not Acceptable
    26 Link Key cannot be Changed
    27 Requested QoS Not Supported
    28 Instant Passed
    29 Pairing With Unit Key Not Supported
    2a Different Transaction Collision
    2c QoS Unacceptable Parameter
    2d QoS Rejected
    2e Channel Classification Not Supported
    2f Insufficient Security
    30 Parameter Out Of Manadatory Range
    32 Role Switch Pending
    34 Reserved Slot Violation
    35 Role Switch Failed
    36 Extended Inquiry Response Too Large
    37 Secure Simple Pairing Not Supported By Host
    38 Host Busy - Pairing
    39 Connection Rejected due to No Suitable Channel Found
    3a Controller Busy
    3b Unacceptable Connection Parameters
    3c Advertising Timeout
    3d Connection Terminated due to MIC Failure
    3e Connection Failed to be Established
    3f MAC Connection Failed
    40 Coarse Clock Adjustment Rejected but Will Try to Adjust Using Clock Dragging
    41 Type0 Submap Not Defined
    42 Unknown Advertising Identifier
    43 Limit Reached
    44 Operation Cancelled by Host
    45 Packet Too Long
    """
}

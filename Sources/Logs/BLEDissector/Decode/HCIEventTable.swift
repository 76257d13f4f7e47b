/// HCI events and LE subevents with their parameters.
///
/// Core 5.4, Vol 4, Part E, 7.7. Names are those of `btmon` 5.66, or the specification's if `btmon` has no
/// name. The fields of Command Complete and Command Status are in `HCICommandTable`.
enum HCIEventTable {
  static let layouts = PacketLayout.table(text)
  /// Layouts by subevent code, which is the first parameter of an LE Meta event. Core 5.4, Vol 4, Part E,
  /// 7.7.65.
  static let subevents = PacketLayout.table(subeventText)

  private static let text = """
    01 Inquiry Complete | status
    02 Inquiry Result
    03 Connect Complete | status, handle, public Address, =link Link type, =enable Encryption
    04 Connect Request | public Address, hex3 Class, =link Link type
    05 Disconnect Complete | status, handle, reason
    06 Auth Complete | status, handle
    07 Remote Name Req Complete | status, public Address, name Name
    08 Encryption Change | status, handle, =enable Encryption
    09 Change Connection Link Key Complete
    0a Link Key Type Changed
    0b Read Remote Supported Features
    0c Read Remote Version Complete | status, handle, =version LMP version, =company Manufacturer, \
      x16 Subversion
    0d QoS Setup Complete
    0e Command Complete
    0f Command Status
    10 Hardware Error | x8 Code
    11 Flush Occurred
    12 Role Change | status, public Address, =role Role
    13 Number of Completed Packets | times Num handles, handle, u16 Count
    14 Mode Change
    15 Return Link Keys
    16 PIN Code Request | public Address
    17 Link Key Request | public Address
    18 Link Key Notification | public Address, hex16 Link key, x8 Key type
    19 Loopback Command
    1a Data Buffer Overflow | =link Link type
    1b Max Slots Change
    1c Read Clock Offset Complete
    1d Connection Packet Type Changed
    1e QoS Violation
    1f Page Scan Mode Change
    20 Page Scan Repetition Mode Change
    21 Flow Specification Complete
    22 Inquiry Result with RSSI
    23 Read Remote Extended Features
    2c Synchronous Connect Complete
    2d Synchronous Connect Changed
    2e Sniff Subrating
    2f Extended Inquiry Result
    30 Encryption Key Refresh Complete | status, handle
    31 IO Capability Request | public Address
    32 IO Capability Response
    33 User Confirmation Request
    34 User Passkey Request
    35 Remote OOB Data Request
    36 Simple Pairing Complete | status, public Address
    38 Link Supervision Timeout Changed | handle, slot Link supervision timeout
    39 Enhanced Flush Complete
    3b User Passkey Notification
    3c Keypress Notification
    3d Remote Host Supported Features
    3e LE Meta Event
    40 Physical Link Complete
    41 Channel Selected
    42 Disconnect Physical Link Complete
    43 Physical Link Loss Early Warning
    44 Physical Link Recovery
    45 Logical Link Complete
    46 Disconnect Logical Link Complete
    47 Flow Specification Modify Complete
    48 Number of Completed Data Blocks
    49 AMP Start Test
    4a AMP Test End
    4b AMP Receiver Report
    4c Short Range Mode Change Complete
    4d AMP Status Change
    4e Triggered Clock Capture
    4f Synchronization Train Complete
    50 Synchronization Train Received
    51 Connectionless Peripheral Broadcast Receive
    52 Connectionless Peripheral Broadcast Timeout
    53 Truncated Page Complete
    54 Peripheral Page Response Timeout
    55 Connectionless Peripheral Broadcast Channel Map Change
    56 Inquiry Response Notification
    57 Authenticated Payload Timeout Expired | handle
    58 SAM Status Change
    59 Encryption Change v2 | status, handle, =enable Encryption, u8 Key size
    ff Vendor
    """

  private static let subeventText = """
    01 LE Connection Complete | status, handle, =role Role, =address Peer address type, addr Peer address, \
      conn Connection interval, n16 Connection latency, tmo Supervision timeout, x8 Central clock accuracy
    02 LE Advertising Report | times Num reports, =advevent Event type, =address Address type, addr Address, \
      data Data length, rssi RSSI
    03 LE Connection Update Complete | status, handle, conn Connection interval, n16 Connection latency, \
      tmo Supervision timeout
    04 LE Read Remote Used Features | status, handle, features Features
    05 LE Long Term Key Request | handle, x64 Random number, x16 Encrypted diversifier
    06 LE Remote Connection Parameter Request | handle, conn Min connection interval, \
      conn Max connection interval, n16 Connection latency, tmo Supervision timeout
    07 LE Data Length Change | handle, u16 Max TX octets, us16 Max TX time, u16 Max RX octets, \
      us16 Max RX time
    08 LE Read Local P-256 Public Key Complete | status, hex32 Local P-256 public key X, \
      hex32 Local P-256 public key Y
    09 LE Generate DHKey Complete | status, hex32 Diffie-Hellman key
    0a LE Enhanced Connection Complete | status, handle, =role Role, =address Peer address type, \
      addr Peer address, random Local resolvable private address, random Peer resolvable private address, \
      conn Connection interval, n16 Connection latency, tmo Supervision timeout, x8 Central clock accuracy
    0b LE Direct Advertising Report | times Num reports, =advevent Event type, =address Address type, \
      addr Address, =address Direct address type, addr Direct address, rssi RSSI
    0c LE PHY Update Complete | status, handle, =phy TX PHY, =phy RX PHY
    0d LE Extended Advertising Report | times Num reports, extended Event type, =address Address type, \
      addr Address, =phy Primary PHY, =phy Secondary PHY, x8 SID, dbm TX power, rssi RSSI, \
      conn Periodic advertising interval, =address Direct address type, addr Direct address, \
      data Data length
    0e LE Periodic Advertising Sync Established | status, u16 Sync handle, x8 Advertising SID, \
      =address Advertiser address type, addr Advertiser address, =phy Advertiser PHY, \
      conn Periodic advertising interval, x8 Advertiser clock accuracy
    0f LE Periodic Advertising Report | u16 Sync handle, dbm TX power, rssi RSSI, x8 CTE Type, \
      x8 Data status, data Data length
    10 LE Periodic Advertising Sync Lost | u16 Sync handle
    11 LE Scan Timeout |
    12 LE Advertising Set Terminated | status, u8 Handle, handle Connection handle, \
      u8 Number of completed extended advertising events
    13 LE Scan Request Received | u8 Handle, =address Scanner address type, addr Scanner address
    14 LE Channel Selection Algorithm | handle, =algorithm Algorithm
    15 LE Connectionless IQ Report
    16 LE Connection IQ Report
    17 LE CTE Request Failed
    18 LE Periodic Advertising Sync Transfer Received | status, handle, u16 Service data, u16 Sync handle, \
      u8 SID, =address Address type, addr Address, =phy PHY, conn Periodic advertising interval, \
      x8 Clock accuracy
    19 LE Connected Isochronous Stream Established | status, handle Connection Handle, \
      us24 CIG Synchronization Delay, us24 CIS Synchronization Delay, us24 Central to Peripheral Latency, \
      us24 Peripheral to Central Latency, =phy Central to Peripheral PHY, =phy Peripheral to Central PHY, \
      u8 Number of Subevents, u8 Central to Peripheral Burst Number, u8 Peripheral to Central Burst Number, \
      u8 Central to Peripheral Flush Timeout, u8 Peripheral to Central Flush Timeout, \
      u16 Central to Peripheral MTU, u16 Peripheral to Central MTU, conn ISO Interval
    1a LE Connected Isochronous Stream Request | handle ACL Handle, handle CIS Handle, x8 CIG ID, x8 CIS ID
    1b LE Broadcast Isochronous Group Complete
    1c LE Broadcast Isochronous Group Terminate
    1d LE Broadcast Isochronous Group Sync Estabilished
    1e LE Broadcast Isochronous Group Sync Lost
    1f LE Request Peer SCA Complete | status, handle Connection Handle, x8 SCA
    20 LE Path Loss Threshold | handle, u8 Current path loss, u8 Zone entered
    21 LE Transmit Power Reporting | status, handle, x8 Reason, =phy PHY, dbm TX power, x8 TX power flag, \
      u8 Delta
    22 LE Broadcast Isochronous Group Info Advertising Report
    23 LE Subrate Change | status, handle, u16 Subrate factor, u16 Peripheral latency, \
      u16 Continuation number, tmo Supervision timeout
    """
}

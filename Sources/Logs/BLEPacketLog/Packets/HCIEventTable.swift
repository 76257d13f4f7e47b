/// HCI events and LE subevents with their parameters.
///
/// Core 5.4, Vol 4, Part E, 7.7, and earlier versions for removed events. Names are from `btmon` 5.66, or
/// from the specification if `btmon` has no name. The fields of a Command Complete are in `HCICommandTable`.
package enum HCIEventTable {
  package static let layouts = PacketLayout.table(text)
  /// Layouts by subevent code, which is the first parameter of an LE Meta event. Core 5.4, Vol 4, Part E,
  /// 7.7.65.
  package static let subevents = PacketLayout.table(subeventText)

  private static let text = """
    01 Inquiry Complete | status
    02 Inquiry Result | times Num responses, public Address, =repetition Page scan repetition mode, \
      =pageperiod Page period mode, =pagescanmode Page scan mode, class Class, x16 Clock offset
    03 Connect Complete | status, handle, public Address, =link Link type, =enable Encryption
    04 Connect Request | public Address, class Class, =link Link type
    05 Disconnect Complete | status, handle, reason
    06 Auth Complete | status, handle
    07 Remote Name Req Complete | status, public Address, name Name
    08 Encryption Change | status, handle, =enable Encryption
    09 Change Connection Link Key Complete | status, handle
    0a Link Key Type Changed | status, handle, =keyflag Key flag
    0b Read Remote Supported Features | status, handle, lmp0 Features
    0c Read Remote Version Complete | status, handle, =version LMP version, company Manufacturer, \
      x16 Subversion
    0d QoS Setup Complete | status, handle, x8 Flags, =service Service type, u32 Token rate, \
      u32 Peak bandwidth, u32 Latency, u32 Delay variation
    0e Command Complete
    0f Command Status | status, u8 Num hci command packets, x16 Opcode
    10 Hardware Error | x8 Code
    11 Flush Occurred | handle
    12 Role Change | status, public Address, =role Role
    13 Number of Completed Packets | times Num handles, handle, u16 Count
    14 Mode Change | status, handle, =mode Mode, slot Interval
    15 Return Link Keys | times Num keys, public Address, key16 Link key
    16 PIN Code Request | public Address
    17 Link Key Request | public Address
    18 Link Key Notification | public Address, key16 Link key, =linkkey Key type
    19 Loopback Command | rest Packet
    1a Data Buffer Overflow | =link Link type
    1b Max Slots Change | handle, u8 Max slots
    1c Read Clock Offset Complete | status, handle, x16 Clock offset
    1d Connection Packet Type Changed | status, handle, &aclpackets Packet type
    1e QoS Violation | handle
    1f Page Scan Mode Change | public Address, =pagescanmode Page scan mode
    20 Page Scan Repetition Mode Change | public Address, =repetition Page scan repetition mode
    21 Flow Specification Complete | status, handle, x8 Flags, =direction Flow direction, \
      =service Service type, u32 Token rate, u32 Token bucket size, u32 Peak bandwidth, u32 Access latency
    22 Inquiry Result with RSSI | times Num responses, public Address, \
      =repetition Page scan repetition mode, =pageperiod Page period mode, class Class, x16 Clock offset, \
      rssi RSSI
    23 Read Remote Extended Features | status, handle, page Page, u8 Max page, lmp Features
    2c Synchronous Connect Complete | status, handle, public Address, =link Link type, \
      x8 Transmission interval, x8 Retransmission window, u16 RX packet length, u16 TX packet length, \
      =airmode Air mode
    2d Synchronous Connect Changed | status, handle, x8 Transmission interval, x8 Retransmission window, \
      u16 RX packet length, u16 TX packet length
    2e Sniff Subrating | status, handle, slot Max transmit latency, slot Max receive latency, \
      slot Min remote timeout, slot Min local timeout
    2f Extended Inquiry Result | u8 Num responses, public Address, =repetition Page scan repetition mode, \
      =pageperiod Page period mode, class Class, x16 Clock offset, rssi RSSI, structures
    30 Encryption Key Refresh Complete | status, handle
    31 IO Capability Request | public Address
    32 IO Capability Response | public Address, =io IO capability, =oobreceived OOB data, \
      =bonding Authentication
    33 User Confirmation Request | public Address, passkey
    34 User Passkey Request | public Address
    35 Remote OOB Data Request | public Address
    36 Simple Pairing Complete | status, public Address
    38 Link Supervision Timeout Changed | handle, slot Link supervision timeout
    39 Enhanced Flush Complete | handle
    3b User Passkey Notification | public Address, passkey
    3c Keypress Notification | public Address, =keypress Notification type
    3d Remote Host Supported Features | public Address, lmp1 Features
    3e LE Meta Event
    40 Physical Link Complete | status, u8 Physical handle
    41 Channel Selected | u8 Physical handle
    42 Disconnect Physical Link Complete | status, u8 Physical handle, reason
    43 Physical Link Loss Early Warning | u8 Physical handle, =loss Reason
    44 Physical Link Recovery | u8 Physical handle
    45 Logical Link Complete | status, handle, u8 Physical handle, x8 TX flow spec
    46 Disconnect Logical Link Complete | status, handle, reason
    47 Flow Specification Modify Complete | status, handle
    48 Number of Completed Data Blocks | u16 Total num data blocks, times Num handles, handle, \
      u16 Num packets, u16 Num blocks
    49 AMP Start Test | status, u8 Scenario
    4a AMP Test End | status, u8 Scenario
    4b AMP Receiver Report | u8 Controller type, u8 Reason, u32 Event type, u16 Number of frames, \
      u16 Number of error frames, u32 Number of bits, u32 Number of error bits
    4c Short Range Mode Change Complete | status, u8 Physical handle, =enable Short range mode
    4d AMP Status Change | status, =amp AMP status
    4e Triggered Clock Capture | handle, =clocktype Type, x32 Clock, x16 Clock offset
    4f Synchronization Train Complete | status
    50 Synchronization Train Received | status, public Address, x32 Offset, map10 Channel map, \
      u8 LT address, x32 Next broadcast instant, slot Interval, x8 Service Data
    51 Connectionless Peripheral Broadcast Receive | public Address, u8 LT address, x32 Clock, x32 Offset, \
      x8 Receive status, =part Fragment, size8 Length, sized Data
    52 Connectionless Peripheral Broadcast Timeout | public Address, u8 LT address
    53 Truncated Page Complete | status, public Address
    54 Peripheral Page Response Timeout |
    55 Connectionless Peripheral Broadcast Channel Map Change | map10 Channel map
    56 Inquiry Response Notification | lap Access code, rssi RSSI
    57 Authenticated Payload Timeout Expired | handle
    58 SAM Status Change | handle, u8 Local SAM index, u8 Local SAM TX availability, \
      u8 Local SAM RX availability, u8 Remote SAM index, u8 Remote SAM TX availability, \
      u8 Remote SAM RX availability
    59 Encryption Change v2 | status, handle, =enable Encryption, u8 Key size
    ff Vendor
    """

  private static let subeventText = """
    01 LE Connection Complete | status, handle, =role Role, =address Peer address type, addr Peer address, \
      conn Connection interval, n16 Connection latency, tmo Supervision timeout, x8 Central clock accuracy
    02 LE Advertising Report | times Num reports, =advevent Event type, =address Address type, \
      addr Address, data Data length, rssi RSSI
    03 LE Connection Update Complete | status, handle, conn Connection interval, n16 Connection latency, \
      tmo Supervision timeout
    04 LE Read Remote Used Features | status, handle, features Features
    05 LE Long Term Key Request | handle, random8 Random number, x16 Encrypted diversifier
    06 LE Remote Connection Parameter Request | handle, conn Min connection interval, \
      conn Max connection interval, n16 Connection latency, tmo Supervision timeout
    07 LE Data Length Change | handle, u16 Max TX octets, us16 Max TX time, u16 Max RX octets, \
      us16 Max RX time
    08 LE Read Local P-256 Public Key Complete | status, key32 Local P-256 public key X, \
      key32 Local P-256 public key Y
    09 LE Generate DHKey Complete | status, key32 Diffie-Hellman key
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
    0f LE Periodic Advertising Report | u16 Sync handle, dbm TX power, rssi RSSI, =cte CTE Type, \
      =datastatus Data status, data Data length
    10 LE Periodic Advertising Sync Lost | u16 Sync handle
    11 LE Scan Timeout |
    12 LE Advertising Set Terminated | status, u8 Handle, handle Connection handle, \
      u8 Number of completed extended advertising events
    13 LE Scan Request Received | u8 Handle, =address Scanner address type, addr Scanner address
    14 LE Channel Selection Algorithm | handle, =algorithm Algorithm
    15 LE Connectionless IQ Report | u16 Sync handle, u8 Channel index, i16 RSSI, u8 RSSI antenna ID, \
      =cte CTE type, u8 Slot duration, u8 Packet status, u16 Periodic event counter, \
      times Number of samples, i8 I, i8 Q
    16 LE Connection IQ Report | handle Connection handle, =phy RX PHY, u8 Data channel index, i16 RSSI, \
      u8 RSSI antenna ID, =cte CTE type, u8 Slot duration, u8 Packet status, u16 Connection event counter, \
      times Number of samples, i8 I, i8 Q
    17 LE CTE Request Failed | status, handle Connection handle
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
    1b LE Broadcast Isochronous Group Complete | status, x8 Handle, us24 BIG Synchronization Delay, \
      us24 Transport Latency, =phy PHY, u8 NSE, u8 BN, u8 PTO, u8 IRC, u16 Maximum PDU, conn ISO Interval, \
      times Number of BIS, handle Connection Handle
    1c LE Broadcast Isochronous Group Terminate | x8 BIG Handle, reason
    1d LE Broadcast Isochronous Group Sync Estabilished | status, x8 BIG Handle, us24 Transport Latency, \
      u8 NSE, u8 BN, u8 PTO, u8 IRC, u16 Maximum PDU, conn ISO Interval, times Number of BIS, \
      handle Connection Handle
    1e LE Broadcast Isochronous Group Sync Lost | x8 BIG ID, reason
    1f LE Request Peer SCA Complete | status, handle Connection Handle, =accuracy SCA
    20 LE Path Loss Threshold | handle, u8 Current path loss, u8 Zone entered
    21 LE Transmit Power Reporting | status, handle, x8 Reason, =phy PHY, dbm TX power, \
      &powerflags TX power flag, u8 Delta
    22 LE Broadcast Isochronous Group Info Advertising Report | x16 Sync Handle, u8 Number BIS, u8 NSE, \
      conn ISO Interval, u8 BN, u8 PTO, u8 IRC, u16 Maximum PDU, us24 SDU Interval, u16 Maximum SDU, \
      =phy PHY, =framing Framing, x8 Encryption
    23 LE Subrate Change | status, handle, u16 Subrate factor, u16 Peripheral latency, \
      u16 Continuation number, tmo Supervision timeout
    24 LE Periodic Advertising Sync Established v2 | status, u16 Sync handle, x8 Advertising SID, \
      =address Advertiser address type, addr Advertiser address, =phy Advertiser PHY, \
      conn Periodic advertising interval, x8 Advertiser clock accuracy, u8 Number of subevents, \
      conn8 Subevent interval, conn8 Response slot delay, u8 Response slot spacing
    25 LE Periodic Advertising Report v2 | u16 Sync handle, dbm TX power, rssi RSSI, =cte CTE Type, \
      u16 Periodic event counter, u8 Subevent, =datastatus Data status, data Data length
    26 LE Periodic Advertising Sync Transfer Received v2 | status, handle, u16 Service data, \
      u16 Sync handle, u8 SID, =address Address type, addr Address, =phy PHY, \
      conn Periodic advertising interval, x8 Clock accuracy, u8 Number of subevents, \
      conn8 Subevent interval, conn8 Response slot delay, u8 Response slot spacing
    27 LE Periodic Advertising Subevent Data Request | x8 Advertising handle, u8 First subevent, \
      u8 Number of subevents
    28 LE Periodic Advertising Response Report | x8 Advertising handle, u8 Subevent, u8 TX status, \
      times Number of responses, dbm TX power, rssi RSSI, =cte CTE Type, u8 Response slot, \
      =datastatus Data status, data Data length
    29 LE Enhanced Connection Complete v2 | status, handle, =role Role, =address Peer address type, \
      addr Peer address, random Local resolvable private address, random Peer resolvable private address, \
      conn Connection interval, n16 Connection latency, tmo Supervision timeout, x8 Central clock accuracy, \
      x8 Advertising handle, u16 Sync handle
    """
}

/// HCI commands with their parameters, and the return parameters in their Command Complete events.
///
/// Core 5.4, Vol 4, Part E, 7. Names are those of `btmon` 5.66, or the specification's if `btmon` has no
/// name. The parameters of commands without fields, which concern BR/EDR, are shown in hexadecimal.
enum HCICommandTable {
  static let layouts = PacketLayout.table(text)

  private static let text = """
    0401 Inquiry
    0402 Inquiry Cancel
    0403 Periodic Inquiry Mode
    0404 Exit Periodic Inquiry Mode
    0405 Create Connection
    0406 Disconnect | handle, reason
    0407 Add SCO Connection
    0408 Create Connection Cancel
    0409 Accept Connection Request
    040a Reject Connection Request
    040b Link Key Request Reply
    040c Link Key Request Negative Reply
    040d PIN Code Request Reply
    040e PIN Code Request Negative Reply
    040f Change Connection Packet Type
    0411 Authentication Requested
    0413 Set Connection Encryption
    0415 Change Connection Link Key
    0417 Temporary Link Key
    0419 Remote Name Request
    041a Remote Name Request Cancel
    041b Read Remote Supported Features
    041c Read Remote Extended Features
    041d Read Remote Version Information | handle
    041f Read Clock Offset
    0420 Read LMP Handle
    0428 Setup Synchronous Connection
    0429 Accept Synchronous Connection Request
    042a Reject Synchronous Connection Request
    042b IO Capability Request Reply
    042c User Confirmation Request Reply
    042d User Confirmation Request Neg Reply
    042e User Passkey Request Reply
    042f User Passkey Request Negative Reply
    0430 Remote OOB Data Request Reply
    0433 Remote OOB Data Request Neg Reply
    0434 IO Capability Request Negative Reply
    0435 Create Physical Link
    0436 Accept Physical Link
    0437 Disconnect Physical Link
    0438 Create Logical Link
    0439 Accept Logical Link
    043a Disconnect Logical Link
    043b Logical Link Cancel
    043c Flow Specifcation Modify
    043d Enhanced Setup Synchronous Connection
    043e Enhanced Accept Synchronous Connection Request
    043f Truncated Page
    0440 Truncated Page Cancel
    0441 Set Connectionless Peripheral Broadcast
    0442 Set Connectionless Peripheral Broadcast Receive
    0443 Start Synchronization Train
    0444 Receive Synchronization Train
    0445 Remote OOB Extended Data Request Reply
    0801 Hold Mode
    0803 Sniff Mode
    0804 Exit Sniff Mode
    0805 Park State
    0806 Exit Park State
    0807 QoS Setup
    0809 Role Discovery
    080b Switch Role
    080c Read Link Policy Settings
    080d Write Link Policy Settings
    080e Read Default Link Policy Settings
    080f Write Default Link Policy Settings | x16 Link policy
    0810 Flow Specification
    0811 Sniff Subrating
    0c01 Set Event Mask | events
    0c03 Reset |
    0c05 Set Event Filter
    0c08 Flush
    0c09 Read PIN Type
    0c0a Write PIN Type
    0c0b Create New Unit Key
    0c0d Read Stored Link Key
    0c11 Write Stored Link Key
    0c12 Delete Stored Link Key
    0c13 Write Local Name | name Name
    0c14 Read Local Name | | status, name Name
    0c15 Read Connection Accept Timeout
    0c16 Write Connection Accept Timeout | slot Timeout
    0c17 Read Page Timeout
    0c18 Write Page Timeout | slot Timeout
    0c19 Read Scan Enable
    0c1a Write Scan Enable | =scans Scan enable
    0c1b Read Page Scan Activity
    0c1c Write Page Scan Activity | slot Interval, slot Window
    0c1d Read Inquiry Scan Activity
    0c1e Write Inquiry Scan Activity | slot Interval, slot Window
    0c1f Read Authentication Enable
    0c20 Write Authentication Enable | =enable Enable
    0c21 Read Encryption Mode
    0c22 Write Encryption Mode
    0c23 Read Class of Device
    0c24 Write Class of Device | x24 Class
    0c25 Read Voice Setting
    0c26 Write Voice Setting | x16 Setting
    0c27 Read Automatic Flush Timeout
    0c28 Write Automatic Flush Timeout
    0c29 Read Num Broadcast Retransmissions
    0c2a Write Num Broadcast Retransmissions
    0c2b Read Hold Mode Activity
    0c2c Write Hold Mode Activity
    0c2d Read Transmit Power Level | handle, u8 Type | status, handle, dbm TX power
    0c2e Read Sync Flow Control Enable
    0c2f Write Sync Flow Control Enable
    0c31 Set Controller To Host Flow Control
    0c33 Host Buffer Size | u16 ACL MTU, u8 SCO MTU, u16 ACL max packet, u16 SCO max packet
    0c35 Host Number of Completed Packets
    0c36 Read Link Supervision Timeout
    0c37 Write Link Supervision Timeout
    0c38 Read Number of Supported IAC
    0c39 Read Current IAC LAP
    0c3a Write Current IAC LAP
    0c3b Read Page Scan Period Mode
    0c3c Write Page Scan Period Mode
    0c3d Read Page Scan Mode
    0c3e Write Page Scan Mode
    0c3f Set AFH Host Channel Classification
    0c42 Read Inquiry Scan Type
    0c43 Write Inquiry Scan Type | =scantype Type
    0c44 Read Inquiry Mode
    0c45 Write Inquiry Mode | =inquirymode Mode
    0c46 Read Page Scan Type
    0c47 Write Page Scan Type | =scantype Type
    0c48 Read AFH Channel Assessment Mode
    0c49 Write AFH Channel Assessment Mode
    0c51 Read Extended Inquiry Response
    0c52 Write Extended Inquiry Response | =fec FEC, structures
    0c53 Refresh Encryption Key
    0c55 Read Simple Pairing Mode
    0c56 Write Simple Pairing Mode | =enable Mode
    0c57 Read Local OOB Data
    0c58 Read Inquiry Response TX Power Level
    0c59 Write Inquiry Transmit Power Level
    0c5a Read Default Erroneous Data Reporting
    0c5b Write Default Erroneous Data Reporting
    0c5f Enhanced Flush
    0c60 Send Keypress Notification
    0c61 Read Logical Link Accept Timeout
    0c62 Write Logical Link Accept Timeout
    0c63 Set Event Mask Page 2 | x64 Mask
    0c64 Read Location Data
    0c65 Write Location Data
    0c66 Read Flow Control Mode
    0c67 Write Flow Control Mode
    0c68 Read Enhanced Transmit Power Level
    0c69 Read Best Effort Flush Timeout
    0c6a Write Best Effort Flush Timeout
    0c6b Short Range Mode
    0c6c Read LE Host Supported | | status, x8 Supported, x8 Simultaneous
    0c6d Write LE Host Supported | x8 Supported, x8 Simultaneous
    0c6e Set MWS Channel Parameters
    0c6f Set External Frame Configuration
    0c70 Set MWS Signaling
    0c71 Set MWS Transport Layer
    0c72 Set MWS Scan Frequency Table
    0c73 Set MWS Pattern Configuration
    0c74 Set Reserved LT_ADDR
    0c75 Delete Reserved LT_ADDR
    0c76 Set Connectionless Peripheral Broadcast Data
    0c77 Read Synchronization Train Parameters
    0c78 Write Synchronization Train Parameters
    0c79 Read Secure Connections Host Support
    0c7a Write Secure Connections Host Support | =enable Support
    0c7b Read Authenticated Payload Timeout | handle | status, handle, tmo Timeout
    0c7c Write Authenticated Payload Timeout | handle, tmo Timeout | status, handle
    0c7d Read Local OOB Extended Data
    0c7e Read Extended Page Timeout
    0c7f Write Extended Page Timeout
    0c80 Read Extended Inquiry Length
    0c81 Write Extended Inquiry Length
    0c83 Configure Data Path
    1001 Read Local Version Information | | status, =version HCI version, x16 Revision, \
      =version LMP version, =company Manufacturer, x16 Subversion
    1002 Read Local Supported Commands | | status, ones64 Commands
    1003 Read Local Supported Features | | status, hex8 Features
    1004 Read Local Extended Features | u8 Page | status, u8 Page, u8 Max page, hex8 Features
    1005 Read Buffer Size | | status, u16 ACL MTU, u8 SCO MTU, u16 ACL max packet, u16 SCO max packet
    1007 Read Country Code
    1009 Read BD ADDR | | status, public Address
    100a Read Data Block Size
    100b Read Local Supported Codecs
    100c Read Local Simple Pairing Options
    100d Read Local Supported Codecs V2
    100e Read Local Supported Codec Capabilities
    100f Read Local Supported Controller Delay
    1401 Read Failed Contact Counter
    1402 Reset Failed Contact Counter
    1403 Read Link Quality
    1405 Read RSSI | handle | status, handle, rssi RSSI
    1406 Read AFH Channel Map
    1407 Read Clock
    1408 Read Encryption Key Size
    1409 Read Local AMP Info
    140a Read Local AMP ASSOC
    140b Write Remote AMP ASSOC
    140c Get MWS Transport Layer Configuration
    140d Set Triggered Clock Capture
    1801 Read Loopback Mode
    1802 Write Loopback Mode
    1803 Enable Device Under Test Mode
    1804 Write Simple Pairing Debug Mode
    1807 Enable AMP Receiver Reports
    1808 AMP Test End
    1809 AMP Test
    180a Write Secure Connections Test Mode
    2001 LE Set Event Mask | subevents
    2002 LE Read Buffer Size | | status, u16 Data packet length, u8 Num data packets
    2003 LE Read Local Supported Features | | status, features Features
    2005 LE Set Random Address | random Address
    2006 LE Set Advertising Parameters | slot Min advertising interval, slot Max advertising interval, \
      =advtype Type, =own Own address type, =address Direct address type, addr Direct address, \
      channels Channel map, =advfilter Filter policy
    2007 LE Read Advertising Channel TX Power | | status, dbm TX power
    2008 LE Set Advertising Data | data Length, pad
    2009 LE Set Scan Response Data | data Length, pad
    200a LE Set Advertise Enable | =enable Advertising
    200b LE Set Scan Parameters | =scan Type, slot Interval, slot Window, =own Own address type, \
      =scanfilter Filter policy
    200c LE Set Scan Enable | =enable Scanning, =enable Filter duplicates
    200d LE Create Connection | slot Scan interval, slot Scan window, =initfilter Filter policy, \
      =address Peer address type, addr Peer address, =own Own address type, conn Min connection interval, \
      conn Max connection interval, n16 Connection latency, tmo Supervision timeout, \
      slot Min connection length, slot Max connection length
    200e LE Create Connection Cancel |
    200f LE Read Accept List Size | | status, u8 Size
    2010 LE Clear Accept List |
    2011 LE Add Device To Accept List | =address Address type, addr Address
    2012 LE Remove Device From Accept List | =address Address type, addr Address
    2013 LE Connection Update | handle, conn Min connection interval, conn Max connection interval, \
      n16 Connection latency, tmo Supervision timeout, slot Min connection length, \
      slot Max connection length
    2014 LE Set Host Channel Classification | hex5 Channel map
    2015 LE Read Channel Map | handle | status, handle, hex5 Channel map
    2016 LE Read Remote Used Features | handle
    2017 LE Encrypt | hex16 Key, hex16 Plaintext data | status, hex16 Encrypted data
    2018 LE Rand | | status, x64 Random number
    2019 LE Start Encryption | handle, x64 Random number, x16 Encrypted diversifier, hex16 Long term key
    201a LE Long Term Key Request Reply | handle, hex16 Long term key | status, handle
    201b LE Long Term Key Request Neg Reply | handle | status, handle
    201c LE Read Supported States | | status, x64 States
    201d LE Receiver Test | u8 RX channel
    201e LE Transmitter Test | u8 TX channel, u8 Test data length, x8 Packet payload
    201f LE Test End | | status, u16 Number of packets
    2020 LE Remote Connection Parameter Request Reply | handle, conn Min connection interval, \
      conn Max connection interval, n16 Connection latency, tmo Supervision timeout, \
      slot Min connection length, slot Max connection length | status, handle
    2021 LE Remote Connection Parameter Request Negative Reply | handle, reason | status, handle
    2022 LE Set Data Length | handle, u16 TX octets, us16 TX time | status, handle
    2023 LE Read Suggested Default Data Length | | status, u16 TX octets, us16 TX time
    2024 LE Write Suggested Default Data Length | u16 TX octets, us16 TX time
    2025 LE Read Local P-256 Public Key |
    2026 LE Generate DHKey | hex32 Remote P-256 public key X, hex32 Remote P-256 public key Y
    2027 LE Add Device To Resolving List | =address Address type, addr Address, \
      hex16 Peer identity resolving key, hex16 Local identity resolving key
    2028 LE Remove Device From Resolving List | =address Address type, addr Address
    2029 LE Clear Resolving List |
    202a LE Read Resolving List Size | | status, u8 Size
    202b LE Read Peer Resolvable Address | =address Peer address type, addr Peer address | status, \
      random Address
    202c LE Read Local Resolvable Address | =address Peer address type, addr Peer address | status, \
      random Address
    202d LE Set Address Resolution Enable | =enable Address resolution
    202e LE Set Resolvable Private Address Timeout | sec Timeout
    202f LE Read Maximum Data Length | | status, u16 Max TX octets, us16 Max TX time, u16 Max RX octets, \
      us16 Max RX time
    2030 LE Read PHY | handle | status, handle, =phy TX PHY, =phy RX PHY
    2031 LE Set Default PHY | x8 All PHYs preference, x8 TX PHYs preference, x8 RX PHYs preference
    2032 LE Set PHY | handle, x8 All PHYs preference, x8 TX PHYs preference, x8 RX PHYs preference, \
      x16 PHY options preference
    2033 LE Enhanced Receiver Test | u8 RX channel, =phy PHY, x8 Modulation index
    2034 LE Enhanced Transmitter Test | u8 TX channel, u8 Test data length, x8 Packet payload, =phy PHY
    2035 LE Set Advertising Set Random Address | x8 Advertising handle, random Advertising random address
    2036 LE Set Extended Advertising Parameters | x8 Handle, x16 Properties, \
      slot24 Min advertising interval, slot24 Max advertising interval, channels Channel map, \
      =own Own address type, =address Peer address type, addr Peer address, =advfilter Filter policy, \
      dbm TX power, =phy Primary PHY, x8 Secondary max skip, =phy Secondary PHY, x8 SID, \
      =enable Scan request notifications | status, dbm TX power (selected)
    2037 LE Set Extended Advertising Data | x8 Handle, =operation Operation, =fragment Fragment preference, \
      data Data length
    2038 LE Set Extended Scan Response Data | x8 Handle, =operation Operation, \
      =fragment Fragment preference, data Data length
    2039 LE Set Extended Advertising Enable | =enable Extended advertising, times Number of sets, x8 Handle, \
      tmo Duration, u8 Max ext adv events
    203a LE Read Maximum Advertising Data Length | | status, u16 Max length
    203b LE Read Number of Supported Advertising Sets | | status, u8 Num supported adv sets
    203c LE Remove Advertising Set | u8 Handle
    203d LE Clear Advertising Sets |
    203e LE Set Periodic Advertising Parameters | u8 Handle, conn Min interval, conn Max interval, \
      x16 Properties
    203f LE Set Periodic Advertising Data | u8 Handle, =operation Operation, data Data length
    2040 LE Set Periodic Advertising Enable | =enable Periodic advertising, u8 Handle
    2041 LE Set Extended Scan Parameters | =own Own address type, =scanfilter Filter policy, phys PHYs, \
      =scan Type, slot Interval, slot Window
    2042 LE Set Extended Scan Enable | =enable Extended scan, =enable Filter duplicates, tmo Duration, \
      n16 Period
    2043 LE Extended Create Connection | =initfilter Filter policy, =own Own address type, \
      =address Peer address type, addr Peer address, phys Initiating PHYs, slot Scan interval, \
      slot Scan window, conn Min connection interval, conn Max connection interval, n16 Connection latency, \
      tmo Supervision timeout, slot Min connection length, slot Max connection length
    2044 LE Periodic Advertising Create Sync | x8 Options, u8 SID, =address Adv address type, \
      addr Adv address, u16 Skip, tmo Sync timeout, x8 Sync CTE type
    2045 LE Periodic Advertising Create Sync Cancel |
    2046 LE Periodic Advertising Terminate Sync | u16 Sync handle
    2047 LE Add Device To Periodic Advertiser List | =address Adv address type, addr Adv address, u8 SID
    2048 LE Remove Device From Periodic Advertiser List | =address Adv address type, addr Adv address, \
      u8 SID
    2049 LE Clear Periodic Advertiser List |
    204a LE Read Periodic Advertiser List Size | | status, u8 List size
    204b LE Read Transmit Power | | status, dbm Min Tx power, dbm Max Tx power
    204c LE Read RF Path Compensation | | status, x16 RF Tx Path Compensation Value, \
      x16 RF Rx Path Compensation Value
    204d LE Write RF Path Compensation | x16 RF Tx Path Compensation Value, \
      x16 RF Rx Path Compensation Value
    204e LE Set Privacy Mode | =address Peer Identity address type, addr Peer Identity address, \
      =privacy Privacy Mode
    204f LE Receiver Test command [v3]
    2050 LE Transmitter Test command [v3]
    2059 LE Periodic Advertising Receive Enable | u16 Sync handle, =enable Reporting
    205a LE Periodic Advertising Sync Transfer
    205b LE Periodic Advertising Set Info Transfer
    205c LE Periodic Advertising Sync Transfer Parameters
    205d LE Set Default Periodic Advertisng Sync Transfer Parameters
    2060 LE Read Buffer v2 | | status, u16 ACL MTU, u8 ACL max packet, u16 ISO MTU, u8 ISO max packet
    2061 LE Read ISO TX Sync
    2062 LE Set Connected Isochronous Group Parameters
    2063 LE Set Connected Isochronous Group Parameters Test
    2064 LE Create Connected Isochronous Stream
    2065 LE Remove Connected Isochronous Group
    2066 LE Accept Connected Isochronous Stream Request
    2067 LE Reject Connected Isochronous Stream Request
    2068 LE Create Broadcast Isochronous Group
    2069 LE Create Broadcast Isochronous Group Test
    206a LE Terminate Broadcast Isochronous Group
    206b LE Broadcast Isochronous Group Create Sync
    206c LE Broadcast Isochronous Group Terminate Sync
    206d LE Request Peer SCA | handle
    206e LE Setup Isochronous Data Path
    206f LE Remove Isochronous Data Path
    2070 LE Isochronous Transmit Test
    2071 LE Isochronous Receive Test
    2072 LE Isochronous Read Test Counters
    2073 LE Isochronous Read Test Counters
    2074 LE Set Host Feature | u8 Bit Number, u8 Bit Value
    2076 LE Enhanced Read Transmit Power Level | handle, =phy PHY | status, handle, =phy PHY, dbm TX power, \
      dbm Max TX power
    2077 LE Read Remote Transmit Power Level | handle, =phy PHY
    2078 LE Set Path Loss Reporting Parameters | handle, u8 High threshold, u8 High hysteresis, \
      u8 Low threshold, u8 Low hysteresis, u16 Min time | status, handle
    2079 LE Set Path Loss Reporting Enable | handle, =enable Reporting | status, handle
    207a LE Set Transmit Power Reporting Enable | handle, =enable Local, =enable Remote | status, handle
    207d LE Set Data Related Address Changes | x8 Advertising handle, x8 Change reasons
    207e LE Set Default Subrate | u16 Min subrate, u16 Max subrate, u16 Max latency, \
      u16 Continuation number, tmo Supervision timeout
    207f LE Subrate Request | handle, u16 Min subrate, u16 Max subrate, u16 Max latency, \
      u16 Continuation number, tmo Supervision timeout
    """
}

/// HCI commands with their parameters, and the return parameters in their Command Complete events.
///
/// Core 5.4, Vol 4, Part E, 7, and earlier versions for removed commands. Names are from `btmon` 5.66, or
/// from the specification if `btmon` has no name.
package enum HCICommandTable {
  package static let layouts = PacketLayout.table(text)

  private static let text = """
    0000 NOP | |
    0401 Inquiry | lap Access code, inquiry Length, u8 Num responses
    0402 Inquiry Cancel |
    0403 Periodic Inquiry Mode | period Max period, period Min period, lap Access code, inquiry Length, \
      u8 Num responses
    0404 Exit Periodic Inquiry Mode |
    0405 Create Connection | public Address, &aclpackets Packet type, \
      =repetition Page scan repetition mode, =pagescanmode Page scan mode, x16 Clock offset, \
      =roleswitch Role switch
    0406 Disconnect | handle, reason
    0407 Add SCO Connection | handle, &scopackets Packet type
    0408 Create Connection Cancel | public Address | status, public Address
    0409 Accept Connection Request | public Address, =role Role
    040a Reject Connection Request | public Address, reason
    040b Link Key Request Reply | public Address, key16 Link key | status, public Address
    040c Link Key Request Negative Reply | public Address | status, public Address
    040d PIN Code Request Reply | public Address, u8 PIN length, key16 PIN code | status, public Address
    040e PIN Code Request Negative Reply | public Address | status, public Address
    040f Change Connection Packet Type | handle, &aclpackets Packet type
    0411 Authentication Requested | handle
    0413 Set Connection Encryption | handle, =enable Encryption
    0415 Change Connection Link Key | handle
    0417 Temporary Link Key | =keyflag Key flag
    0419 Remote Name Request | public Address, =repetition Page scan repetition mode, \
      =pagescanmode Page scan mode, x16 Clock offset
    041a Remote Name Request Cancel | public Address | status, public Address
    041b Read Remote Supported Features | handle
    041c Read Remote Extended Features | handle, page Page
    041d Read Remote Version Information | handle
    041f Read Clock Offset | handle
    0420 Read LMP Handle | handle | status, handle, u8 LMP handle, u32 Reserved
    0428 Setup Synchronous Connection | handle, u32 Transmit bandwidth, u32 Receive bandwidth, \
      u16 Max latency, voice Setting, =effort Retransmission effort, &scopackets Packet type
    0429 Accept Synchronous Connection Request | public Address, u32 Transmit bandwidth, \
      u32 Receive bandwidth, u16 Max latency, voice Setting, =effort Retransmission effort, \
      &scopackets Packet type
    042a Reject Synchronous Connection Request | public Address, reason
    042b IO Capability Request Reply | public Address, =io IO capability, =oobsent OOB data, \
      =bonding Authentication | status, public Address
    042c User Confirmation Request Reply | public Address | status, public Address
    042d User Confirmation Request Neg Reply | public Address | status, public Address
    042e User Passkey Request Reply | public Address, passkey | status, public Address
    042f User Passkey Request Negative Reply | public Address | status, public Address
    0430 Remote OOB Data Request Reply | public Address, key16 Hash C from P-192, \
      key16 Randomizer R with P-192 | status, public Address
    0433 Remote OOB Data Request Neg Reply | public Address | status, public Address
    0434 IO Capability Request Negative Reply | public Address, reason | status, public Address
    0435 Create Physical Link | u8 Physical handle, size8 Key length, =linkkey Key type, sizedkey Key
    0436 Accept Physical Link | u8 Physical handle, size8 Key length, =linkkey Key type, sizedkey Key
    0437 Disconnect Physical Link | u8 Physical handle, reason
    0438 Create Logical Link | u8 Physical handle, x8 TX flow spec, =service TX service type, \
      x16 TX maximum SDU size, x32 TX SDU inter-arrival time, x32 TX access latency, x32 TX flush timeout, \
      x8 RX flow spec, =service RX service type, x16 RX maximum SDU size, x32 RX SDU inter-arrival time, \
      x32 RX access latency, x32 RX flush timeout
    0439 Accept Logical Link | u8 Physical handle, x8 TX flow spec, =service TX service type, \
      x16 TX maximum SDU size, x32 TX SDU inter-arrival time, x32 TX access latency, x32 TX flush timeout, \
      x8 RX flow spec, =service RX service type, x16 RX maximum SDU size, x32 RX SDU inter-arrival time, \
      x32 RX access latency, x32 RX flush timeout
    043a Disconnect Logical Link | handle
    043b Logical Link Cancel | u8 Physical handle, x8 TX flow spec | status, u8 Physical handle, \
      x8 TX flow spec
    043c Flow Specifcation Modify | handle, x8 TX flow spec, =service TX service type, \
      x16 TX maximum SDU size, x32 TX SDU inter-arrival time, x32 TX access latency, x32 TX flush timeout, \
      x8 RX flow spec, =service RX service type, x16 RX maximum SDU size, x32 RX SDU inter-arrival time, \
      x32 RX access latency, x32 RX flush timeout
    043d Enhanced Setup Synchronous Connection | handle, u32 Transmit bandwidth, u32 Receive bandwidth, \
      =codec Transmit coding format, company Transmit company, u16 Transmit vendor codec, \
      =codec Receive coding format, company Receive company, u16 Receive vendor codec, \
      u16 Transmit codec frame size, u16 Receive codec frame size, u32 Input bandwidth, \
      u32 Output bandwidth, =codec Input coding format, company Input company, u16 Input vendor codec, \
      =codec Output coding format, company Output company, u16 Output vendor codec, \
      u16 Input coded data size, u16 Output coded data size, =pcm Input PCM data format, \
      =pcm Output PCM data format, u8 Input PCM payload MSB position, u8 Output PCM payload MSB position, \
      =datapath Input data path, =datapath Output data path, u8 Input transport unit size, \
      u8 Output transport unit size, u16 Max latency, &scopackets Packet type, \
      =effort Retransmission effort
    043e Enhanced Accept Synchronous Connection Request | public Address, u32 Transmit bandwidth, \
      u32 Receive bandwidth, =codec Transmit coding format, company Transmit company, \
      u16 Transmit vendor codec, =codec Receive coding format, company Receive company, \
      u16 Receive vendor codec, u16 Transmit codec frame size, u16 Receive codec frame size, \
      u32 Input bandwidth, u32 Output bandwidth, =codec Input coding format, company Input company, \
      u16 Input vendor codec, =codec Output coding format, company Output company, u16 Output vendor codec, \
      u16 Input coded data size, u16 Output coded data size, =pcm Input PCM data format, \
      =pcm Output PCM data format, u8 Input PCM payload MSB position, u8 Output PCM payload MSB position, \
      =datapath Input data path, =datapath Output data path, u8 Input transport unit size, \
      u8 Output transport unit size, u16 Max latency, &scopackets Packet type, \
      =effort Retransmission effort
    043f Truncated Page | public Address, =repetition Page scan repetition mode, x16 Clock offset
    0440 Truncated Page Cancel | public Address | status, public Address
    0441 Set Connectionless Peripheral Broadcast | x8 Enable, u8 LT address, x8 LPO allowed, \
      &aclpackets Packet type, slot Min interval, slot Max interval, slot Supervision timeout | status, \
      u8 LT address, slot Interval
    0442 Set Connectionless Peripheral Broadcast Receive | x8 Enable, public Address, u8 LT address, \
      slot Interval, x32 Offset, x32 Next broadcast instant, slot Supervision timeout, \
      u8 Remote timing accuracy, x8 Skip, &aclpackets Packet type, map10 Channel map | status, \
      public Address, u8 LT address
    0443 Start Synchronization Train |
    0444 Receive Synchronization Train | public Address, slot Timeout, slot Window, slot Interval
    0445 Remote OOB Extended Data Request Reply | public Address, key16 Hash C from P-192, \
      key16 Randomizer R with P-192, key16 Hash C from P-256, key16 Randomizer R with P-256 | status, \
      public Address
    0801 Hold Mode | handle, slot Hold max interval, slot Hold min interval
    0803 Sniff Mode | handle, slot Sniff max interval, slot Sniff min interval, conn Sniff attempt, \
      conn Sniff timeout
    0804 Exit Sniff Mode | handle
    0805 Park State | handle, slot Beacon max interval, slot Beacon min interval
    0806 Exit Park State | handle
    0807 QoS Setup | handle, x8 Flags, =service Service type, u32 Token rate, u32 Peak bandwidth, \
      u32 Latency, u32 Delay variation
    0809 Role Discovery | handle | status, handle, =role Role
    080b Switch Role | public Address, =role Role
    080c Read Link Policy Settings | handle | status, handle, &policy Link policy
    080d Write Link Policy Settings | handle, &policy Link policy | status, handle
    080e Read Default Link Policy Settings | | status, &policy Link policy
    080f Write Default Link Policy Settings | &policy Link policy
    0810 Flow Specification | handle, x8 Flags, =direction Flow direction, =service Service type, \
      u32 Token rate, u32 Token bucket size, u32 Peak bandwidth, u32 Access latency
    0811 Sniff Subrating | handle, slot Max latency, slot Min remote timeout, slot Min local timeout | \
      status, handle
    0c01 Set Event Mask | events
    0c03 Reset |
    0c05 Set Event Filter | =filter Type, when 01 [=inquiryfilter Filter, when 01 [class Class, \
      x24 Class mask], when 02 [public Address]], when 02 [=setupfilter Filter, when 01 [class Class, \
      x24 Class mask], when 02 [public Address], =accept Auto accept]
    0c08 Flush | handle | status, handle
    0c09 Read PIN Type | | status, =pin PIN type
    0c0a Write PIN Type | =pin PIN type
    0c0b Create New Unit Key |
    0c0d Read Stored Link Key | public Address, x8 Read all | status, u16 Max num keys, u16 Num keys
    0c11 Write Stored Link Key | times Num keys, public Address, key16 Link key | status, u8 Num keys
    0c12 Delete Stored Link Key | public Address, x8 Delete all | status, u16 Num keys
    0c13 Write Local Name | name Name
    0c14 Read Local Name | | status, name Name
    0c15 Read Connection Accept Timeout | | status, slot Timeout
    0c16 Write Connection Accept Timeout | slot Timeout
    0c17 Read Page Timeout | | status, slot Timeout
    0c18 Write Page Timeout | slot Timeout
    0c19 Read Scan Enable | | status, =scans Scan enable
    0c1a Write Scan Enable | =scans Scan enable
    0c1b Read Page Scan Activity | | status, slot Interval, slot Window
    0c1c Write Page Scan Activity | slot Interval, slot Window
    0c1d Read Inquiry Scan Activity | | status, slot Interval, slot Window
    0c1e Write Inquiry Scan Activity | slot Interval, slot Window
    0c1f Read Authentication Enable | | status, =authenticate Enable
    0c20 Write Authentication Enable | =authenticate Enable
    0c21 Read Encryption Mode | | status, =encrypt Mode
    0c22 Write Encryption Mode | =encrypt Mode
    0c23 Read Class of Device | | status, class Class
    0c24 Write Class of Device | class Class
    0c25 Read Voice Setting | | status, voice Setting
    0c26 Write Voice Setting | voice Setting
    0c27 Read Automatic Flush Timeout | handle | status, handle, slot Timeout
    0c28 Write Automatic Flush Timeout | handle, slot Timeout | status, handle
    0c29 Read Num Broadcast Retransmissions | | status, u8 Number of broadcast retransmissions
    0c2a Write Num Broadcast Retransmissions | u8 Number of broadcast retransmissions
    0c2b Read Hold Mode Activity | | status, &hold Activity
    0c2c Write Hold Mode Activity | &hold Activity
    0c2d Read Transmit Power Level | handle, =level Type | status, handle, dbm TX power
    0c2e Read Sync Flow Control Enable | | status, =enable Flow control
    0c2f Write Sync Flow Control Enable | =enable Flow control
    0c31 Set Controller To Host Flow Control | =flowcontrol Flow control
    0c33 Host Buffer Size | u16 ACL MTU, u8 SCO MTU, u16 ACL max packet, u16 SCO max packet
    0c35 Host Number of Completed Packets | times Num handles, handle, u16 Count
    0c36 Read Link Supervision Timeout | handle | status, handle, slot Timeout
    0c37 Write Link Supervision Timeout | handle, slot Timeout | status, handle
    0c38 Read Number of Supported IAC | | status, u8 Number of IAC
    0c39 Read Current IAC LAP | | status, times Number of IAC, lap Access code
    0c3a Write Current IAC LAP | times Number of IAC, lap Access code
    0c3b Read Page Scan Period Mode | | status, =pageperiod Page period mode
    0c3c Write Page Scan Period Mode | =pageperiod Page period mode
    0c3d Read Page Scan Mode | | status, =pagescanmode Page scan mode
    0c3e Write Page Scan Mode | =pagescanmode Page scan mode
    0c3f Set AFH Host Channel Classification | map10 Channel map
    0c42 Read Inquiry Scan Type | | status, =scantype Type
    0c43 Write Inquiry Scan Type | =scantype Type
    0c44 Read Inquiry Mode | | status, =inquirymode Mode
    0c45 Write Inquiry Mode | =inquirymode Mode
    0c46 Read Page Scan Type | | status, =scantype Type
    0c47 Write Page Scan Type | =scantype Type
    0c48 Read AFH Channel Assessment Mode | | status, =enable Mode
    0c49 Write AFH Channel Assessment Mode | =enable Mode
    0c51 Read Extended Inquiry Response | | status, =fec FEC, structures
    0c52 Write Extended Inquiry Response | =fec FEC, structures
    0c53 Refresh Encryption Key | handle
    0c55 Read Simple Pairing Mode | | status, =enable Mode
    0c56 Write Simple Pairing Mode | =enable Mode
    0c57 Read Local OOB Data | | status, key16 Hash C from P-192, key16 Randomizer R with P-192
    0c58 Read Inquiry Response TX Power Level | | status, dbm TX power
    0c59 Write Inquiry Transmit Power Level | dbm TX power
    0c5a Read Default Erroneous Data Reporting | | status, =enable Mode
    0c5b Write Default Erroneous Data Reporting | =enable Mode
    0c5f Enhanced Flush | handle, =flush Type
    0c60 Send Keypress Notification | public Address, =keypress Type | status, public Address
    0c61 Read Logical Link Accept Timeout | | status, slot Timeout
    0c62 Write Logical Link Accept Timeout | slot Timeout
    0c63 Set Event Mask Page 2 | events2 Mask
    0c64 Read Location Data | | status, !=domain Domain aware, !name2 Domain, !name1 Domain options, !x8 Options
    0c65 Write Location Data | !=domain Domain aware, !name2 Domain, !name1 Domain options, !x8 Options
    0c66 Read Flow Control Mode | | status, =flowmode Flow control mode
    0c67 Write Flow Control Mode | =flowmode Flow control mode
    0c68 Read Enhanced Transmit Power Level | handle, =level Type | status, handle, dbm TX power (GFSK), \
      dbm TX power (DQPSK), dbm TX power (8DPSK)
    0c69 Read Best Effort Flush Timeout | handle | status, us32 Best effort flush timeout
    0c6a Write Best Effort Flush Timeout | handle, us32 Best effort flush timeout
    0c6b Short Range Mode | u8 Physical handle, =enable Short range mode
    0c6c Read LE Host Supported | | status, x8 Supported, x8 Simultaneous
    0c6d Write LE Host Supported | x8 Supported, x8 Simultaneous
    0c6e Set MWS Channel Parameters | =enable Channel, u16 RX center frequency, u16 TX center frequency, \
      u16 RX channel bandwidth, u16 TX channel bandwidth, u8 Channel type
    0c6f Set External Frame Configuration | us16 Frame duration, i16 Frame sync assert offset, \
      us16 Frame sync assert jitter, times Number of periods, us16 Period duration, =interval Period type
    0c70 Set MWS Signaling | i16 RX assert offset, us16 RX assert jitter, i16 RX deassert offset, \
      us16 RX deassert jitter, i16 TX assert offset, us16 TX assert jitter, i16 TX deassert offset, \
      us16 TX deassert jitter, i16 Pattern assert offset, us16 Pattern assert jitter, \
      i16 Inactivity duration assert offset, us16 Inactivity duration assert jitter, \
      i16 Scan frequency assert offset, us16 Scan frequency assert jitter, \
      us16 Priority assert offset request | status, i16 Bluetooth RX priority assert offset, \
      us16 Bluetooth RX priority assert jitter, i16 Bluetooth RX priority deassert offset, \
      us16 Bluetooth RX priority deassert jitter, i16 802 RX priority assert offset, \
      us16 802 RX priority assert jitter, i16 802 RX priority deassert offset, \
      us16 802 RX priority deassert jitter, i16 Bluetooth TX on assert offset, \
      us16 Bluetooth TX on assert jitter, i16 Bluetooth TX on deassert offset, \
      us16 Bluetooth TX on deassert jitter, i16 802 TX on assert offset, us16 802 TX on assert jitter, \
      i16 802 TX on deassert offset, us16 802 TX on deassert jitter
    0c71 Set MWS Transport Layer | =transport Transport layer, u32 Bluetooth to MWS, u32 MWS to Bluetooth
    0c72 Set MWS Scan Frequency Table | times Number of scan frequencies, u16 Low scan frequency, \
      u16 High scan frequency
    0c73 Set MWS Pattern Configuration | u8 Index, times Number of intervals, us16 Interval duration, \
      =interval Interval type
    0c74 Set Reserved LT_ADDR | u8 LT address | status, u8 LT address
    0c75 Delete Reserved LT_ADDR | u8 LT address | status, u8 LT address
    0c76 Set Connectionless Peripheral Broadcast Data | u8 LT address, =part Fragment, size8 Length, \
      sized Data | status, u8 LT address
    0c77 Read Synchronization Train Parameters | | status, slot Interval, slot32 Timeout, x8 Service data
    0c78 Write Synchronization Train Parameters | slot Min interval, slot Max interval, slot32 Timeout, \
      x8 Service data | status, slot Interval
    0c79 Read Secure Connections Host Support | | status, =enable Support
    0c7a Write Secure Connections Host Support | =enable Support
    0c7b Read Authenticated Payload Timeout | handle | status, handle, tmo Timeout
    0c7c Write Authenticated Payload Timeout | handle, tmo Timeout | status, handle
    0c7d Read Local OOB Extended Data | | status, key16 Hash C from P-192, key16 Randomizer R with P-192, \
      key16 Hash C from P-256, key16 Randomizer R with P-256
    0c7e Read Extended Page Timeout | | status, slot Timeout
    0c7f Write Extended Page Timeout | slot Timeout
    0c80 Read Extended Inquiry Length | | status, slot Interval
    0c81 Write Extended Inquiry Length | slot Interval
    0c82 Set Ecosystem Base Interval | u16 Interval
    0c83 Configure Data Path | =path Direction, u8 ID, size8 Vendor Specific Config Length, \
      sized Vendor Specific Config
    0c84 Set Min Encryption Key Size | u8 Min encryption key size
    1001 Read Local Version Information | | status, =version HCI version, x16 Revision, \
      =version LMP version, company Manufacturer, x16 Subversion
    1002 Read Local Supported Commands | | status, commands Commands
    1003 Read Local Supported Features | | status, lmp0 Features
    1004 Read Local Extended Features | page Page | status, page Page, u8 Max page, lmp Features
    1005 Read Buffer Size | | status, u16 ACL MTU, u8 SCO MTU, u16 ACL max packet, u16 SCO max packet
    1007 Read Country Code | | status, =country Country code
    1009 Read BD ADDR | | status, public Address
    100a Read Data Block Size | | status, u16 Max ACL length, u16 Block length, u16 Num blocks
    100b Read Local Supported Codecs | | status, times Number of supported codecs [=codec Codec], \
      times Number of vendor codecs [company Company, u16 Vendor codec ID]
    100c Read Local Simple Pairing Options | | status, &pairingoptions Pairing options, \
      u8 Max encryption key size
    100d Read Local Supported Codecs V2 | | status, times Number of supported codecs [=codec Codec, \
      &codectransports Logical Transport Type], times Number of vendor codecs [company Company, \
      u16 Vendor codec ID, &codectransports Logical Transport Type]
    100e Read Local Supported Codec Capabilities | =codec Codec, company Company, u16 Vendor codec ID, \
      &codectransports Logical Transport Type, =path Direction | status, \
      times Number of codec capabilities, size8 Capabilities length, sized Capabilities
    100f Read Local Supported Controller Delay | =codec Codec, company Company, u16 Vendor codec ID, \
      &codectransports Logical Transport Type, =path Direction, size8 Length Codec Configuration, \
      sized Codec Configuration | status, us24 Minimum Controller delay, us24 Maximum Controller delay
    1401 Read Failed Contact Counter | handle | status, handle, u16 Counter
    1402 Reset Failed Contact Counter | handle | status, handle
    1403 Read Link Quality | handle | status, handle, x8 Link quality
    1405 Read RSSI | handle | status, handle, rssi RSSI
    1406 Read AFH Channel Map | handle | status, handle, =enable Mode, map10 Channel map
    1407 Read Clock | handle, =clocktype Type | status, handle, x32 Clock, clock Accuracy
    1408 Read Encryption Key Size | handle | status, handle, u8 Key size
    1409 Read Local AMP Info | | status, =amp AMP status, u32 Total bandwidth, \
      u32 Max guaranteed bandwidth, u32 Min latency, u32 Max PDU size, =amptype Controller type, \
      x16 PAL capabilities, u16 Max ASSOC length, u32 Max flush timeout, u32 Best effort flush timeout
    140a Read Local AMP ASSOC | u8 Physical handle, u16 Length so far, u16 Max ASSOC length | status, \
      u8 Physical handle, u16 Remaining ASSOC length, rest ASSOC fragment
    140b Write Remote AMP ASSOC | u8 Physical handle, u16 Length so far, u16 Remaining ASSOC length, \
      rest ASSOC fragment | status, u8 Physical handle
    140c Get MWS Transport Layer Configuration | | status, times Number of transports [\
      =transport Transport layer, u8 Number of baud rates], all Baud rates [u32 Bluetooth to MWS, \
      u32 MWS to Bluetooth]
    140d Set Triggered Clock Capture | handle, =enable Capture, =clocktype Type, x8 LPO allowed, \
      u8 Clock captures to filter
    1801 Read Loopback Mode | | status, =loopback Mode
    1802 Write Loopback Mode | =loopback Mode
    1803 Enable Device Under Test Mode |
    1804 Write Simple Pairing Debug Mode | =enable Debug Mode
    1807 Enable AMP Receiver Reports | =enable Enable, u8 Interval
    1808 AMP Test End |
    1809 AMP Test | rest Parameters
    180a Write Secure Connections Test Mode | handle, =enable DM1 ACL-U mode, =enable eSCO loopback mode | \
      status, handle
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
    2014 LE Set Host Channel Classification | map5 Channel map
    2015 LE Read Channel Map | handle | status, handle, map5 Channel map
    2016 LE Read Remote Used Features | handle
    2017 LE Encrypt | key16 Key, key16 Plaintext data | status, key16 Encrypted data
    2018 LE Rand | | status, random8 Random number
    2019 LE Start Encryption | handle, random8 Random number, x16 Encrypted diversifier, \
      key16 Long term key
    201a LE Long Term Key Request Reply | handle, key16 Long term key | status, handle
    201b LE Long Term Key Request Neg Reply | handle | status, handle
    201c LE Read Supported States | | status, &states States
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
    2026 LE Generate DHKey | key32 Remote P-256 public key X, key32 Remote P-256 public key Y
    2027 LE Add Device To Resolving List | =address Address type, addr Address, \
      key16 Peer identity resolving key, key16 Local identity resolving key
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
    2031 LE Set Default PHY | &anyphy All PHYs preference, &somephys TX PHYs preference, \
      &somephys RX PHYs preference
    2032 LE Set PHY | handle, &anyphy All PHYs preference, &somephys TX PHYs preference, \
      &somephys RX PHYs preference, x16 PHY options preference
    2033 LE Enhanced Receiver Test | u8 RX channel, =phy PHY, x8 Modulation index
    2034 LE Enhanced Transmitter Test | u8 TX channel, u8 Test data length, x8 Packet payload, =phy PHY
    2035 LE Set Advertising Set Random Address | x8 Advertising handle, random Advertising random address
    2036 LE Set Extended Advertising Parameters | x8 Handle, properties Properties, \
      slot24 Min advertising interval, slot24 Max advertising interval, channels Channel map, \
      =own Own address type, =address Peer address type, addr Peer address, =advfilter Filter policy, \
      dbm TX power, =phy Primary PHY, x8 Secondary max skip, =phy Secondary PHY, x8 SID, \
      =enable Scan request notifications | status, dbm TX power (selected)
    2037 LE Set Extended Advertising Data | x8 Handle, =operation Operation, =fragment Fragment preference, \
      data Data length
    2038 LE Set Extended Scan Response Data | x8 Handle, =operation Operation, \
      =fragment Fragment preference, data Data length
    2039 LE Set Extended Advertising Enable | =enable Extended advertising, times Number of sets, \
      x8 Handle, tmo Duration, u8 Max ext adv events
    203a LE Read Maximum Advertising Data Length | | status, u16 Max length
    203b LE Read Number of Supported Advertising Sets | | status, u8 Num supported adv sets
    203c LE Remove Advertising Set | u8 Handle
    203d LE Clear Advertising Sets |
    203e LE Set Periodic Advertising Parameters | u8 Handle, conn Min interval, conn Max interval, \
      &periodic Properties
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
    2044 LE Periodic Advertising Create Sync | &syncoptions Options, u8 SID, =address Adv address type, \
      addr Adv address, u16 Skip, tmo Sync timeout, &notones Sync CTE type
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
    204f LE Receiver Test command [v3] | u8 RX Channel, =phy PHY, =modulation Modulation Index, \
      u8 Expected CTE Length, u8 Expected CTE Type, u8 Slot Duration, times Number of antenna IDs, \
      u8 Antenna ID
    2050 LE Transmitter Test command [v3] | u8 TX Channel, u8 Length of Test Data, =payload Packet Payload, \
      =testphy PHY, u8 Expected CTE Length, u8 Expected CTE Type, times Number of antenna IDs, \
      u8 Antenna ID
    2051 LE Set Connectionless CTE Transmit Parameters | x8 Advertising handle, u8 CTE length, \
      =cte CTE type, u8 CTE count, times Number of antenna IDs, u8 Antenna ID
    2052 LE Set Connectionless CTE Transmit Enable | x8 Advertising handle, =enable CTE
    2053 LE Set Connectionless IQ Sampling Enable | u16 Sync handle, =enable Sampling, u8 Slot duration, \
      u8 Max sampled CTEs, times Number of antenna IDs, u8 Antenna ID | status, u16 Sync handle
    2054 LE Set Connection CTE Receive Parameters | handle, =enable Sampling, u8 Slot duration, \
      times Number of antenna IDs, u8 Antenna ID | status, handle
    2055 LE Set Connection CTE Transmit Parameters | handle, &tones CTE types, times Number of antenna IDs, \
      u8 Antenna ID | status, handle
    2056 LE Connection CTE Request Enable | handle, =enable CTE request, u16 Request interval, \
      u8 Requested CTE length, =cte Requested CTE type | status, handle
    2057 LE Connection CTE Response Enable | handle, =enable CTE response | status, handle
    2058 LE Read Antenna Information | | status, &rates Switching and sampling rates, \
      u8 Number of antennae, u8 Max switching pattern length, u8 Max CTE length
    2059 LE Periodic Advertising Receive Enable | u16 Sync handle, =enable Reporting
    205a LE Periodic Advertising Sync Transfer | handle Connection handle, x16 Service data, \
      u16 Sync handle | status, handle Connection handle
    205b LE Periodic Advertising Set Info Transfer | handle Connection handle, x16 Service data, \
      u8 Advertising handle | status, handle Connection handle
    205c LE Periodic Advertising Sync Transfer Parameters | handle Connection handle, =synctransfer Mode, \
      x16 Skip, tmo Sync timeout, &notones Sync CTE type | status, handle Connection handle
    205d LE Set Default Periodic Advertisng Sync Transfer Parameters | =synctransfer Mode, x16 Skip, \
      tmo Sync timeout, &notones Sync CTE type
    205e LE Generate DHKey v2 | key32 Remote P-256 public key X, key32 Remote P-256 public key Y, \
      x8 Key type
    205f LE Modify Sleep Clock Accuracy | =clockaction Action
    2060 LE Read Buffer v2 | | status, u16 ACL MTU, u8 ACL max packet, u16 ISO MTU, u8 ISO max packet
    2061 LE Read ISO TX Sync | handle | status, handle, u16 Sequence Number, u32 Timestamp, us24 Offset
    2062 LE Set Connected Isochronous Group Parameters | x8 CIG ID, \
      us24 Central to Peripheral SDU Interval, us24 Peripheral to Central SDU Interval, =accuracy SCA, \
      =packing Packing, =framing Framing, ms16 Central to Peripheral Maximum Latency, \
      ms16 Peripheral to Central Maximum Latency, times Number of CIS, x8 CIS ID, \
      u16 Central to Peripheral Maximum SDU Size, u16 Peripheral to Central Maximum SDU Size, \
      &somephys Central to Peripheral PHY, &somephys Peripheral to Central PHY, \
      x8 Central to Peripheral Retransmission attempts, x8 Peripheral to Central Retransmission attempts | \
      status, x8 CIG ID, times Number of Handles, handle Connection Handle
    2063 LE Set Connected Isochronous Group Parameters Test | x8 CIG ID, \
      us24 Central to Peripheral SDU Interval, us24 Peripheral to Central SDU Interval, \
      x8 Central to Peripheral Flush Timeout, x8 Peripheral to Central Flush Timeout, conn ISO Interval, \
      =accuracy SCA, =packing Packing, =framing Framing, times Number of CIS, x8 CIS ID, x8 NSE, \
      x16 Central to Peripheral Maximum SDU, x16 Peripheral to Central Maximum SDU, \
      x16 Central to Peripheral Maximum PDU, x16 Peripheral to Central Maximum PDU, \
      &somephys Central to Peripheral PHY, &somephys Peripheral to Central PHY, \
      x8 Central to Peripheral Burst Number, x8 Peripheral to Central Burst Number | status, x8 CIG ID, \
      times Number of Handles, handle Connection Handle
    2064 LE Create Connected Isochronous Stream | times Number of CIS, handle CIS Handle, handle ACL Handle
    2065 LE Remove Connected Isochronous Group | x8 CIG ID | status, x8 CIG ID
    2066 LE Accept Connected Isochronous Stream Request | handle CIS Handle
    2067 LE Reject Connected Isochronous Stream Request | handle CIS Handle, reason | status, \
      handle CIS Handle
    2068 LE Create Broadcast Isochronous Group | x8 Handle, x8 Advertising Handle, u8 Number of BIS, \
      us24 SDU Interval, u16 Maximum SDU size, ms16 Maximum Latency, x8 RTN, &somephys PHY, \
      =packing Packing, =framing Framing, x8 Encryption, key16 Broadcast Code
    2069 LE Create Broadcast Isochronous Group Test | x8 BIG ID, x8 Advertising Handle, u8 Number of BIS, \
      us24 SDU Interval, conn ISO Interval, u8 Number of Subevents, u16 Maximum SDU, u16 Maximum PDU, \
      &somephys PHY, =packing Packing, =framing Framing, u8 Burst Number, u8 Immediate Repetition Count, \
      x8 Pre Transmission Offset, x8 Encryption, key16 Broadcast Code
    206a LE Terminate Broadcast Isochronous Group | x8 BIG Handle, reason
    206b LE Broadcast Isochronous Group Create Sync | x8 BIG Handle, x16 BIG Sync Handle, \
      =encryption Encryption, key16 Broadcast Code, x8 Maximum Number Subevents, tmo Timeout, \
      times Number of BIS, x8 BIS ID
    206c LE Broadcast Isochronous Group Terminate Sync | x8 BIG Handle | status, x8 BIG Handle
    206d LE Request Peer SCA | handle
    206e LE Setup Isochronous Data Path | handle, =path Data Path Direction, =datapath Data Path, \
      =codec Coding Format, company Company Codec ID, u16 Vendor Codec ID, us24 Controller Delay, \
      size8 Codec Configuration Length, sized Codec Configuration | status, handle
    206f LE Remove Isochronous Data Path | handle Connection Handle, &paths Data Path Direction | status, \
      handle
    2070 LE Isochronous Transmit Test | handle, =isopayload Payload type | status, handle
    2071 LE Isochronous Receive Test | handle, =isopayload Payload type | status, handle
    2072 LE Isochronous Read Test Counters | handle | status, handle, u32 Received, u32 Missed, u32 Failed
    2073 LE Isochronous Read Test Counters | handle | status, handle, u32 Received, u32 Missed, u32 Failed
    2074 LE Set Host Feature | bit Bit Number, u8 Bit Value
    2075 LE Read ISO Link Quality | handle | status, handle, u32 TX unacknowledged packets, \
      u32 TX flushed packets, u32 TX last subevent packets, u32 Retransmitted packets, \
      u32 CRC error packets, u32 RX unreceived packets, u32 Duplicate packets
    2076 LE Enhanced Read Transmit Power Level | handle, =phy PHY | status, handle, =phy PHY, dbm TX power, \
      dbm Max TX power
    2077 LE Read Remote Transmit Power Level | handle, =phy PHY
    2078 LE Set Path Loss Reporting Parameters | handle, u8 High threshold, u8 High hysteresis, \
      u8 Low threshold, u8 Low hysteresis, u16 Min time | status, handle
    2079 LE Set Path Loss Reporting Enable | handle, =enable Reporting | status, handle
    207a LE Set Transmit Power Reporting Enable | handle, =enable Local, =enable Remote | status, handle
    207b LE Transmitter Test v4 | u8 TX Channel, u8 Length of Test Data, =payload Packet Payload, \
      =testphy PHY, u8 Expected CTE Length, u8 Expected CTE Type, times Number of antenna IDs [\
      u8 Antenna ID], dbm TX power
    207c LE Set Data Related Address Changes | x8 Advertising handle, &reasons Change reasons
    207d LE Set Default Subrate | u16 Min subrate, u16 Max subrate, u16 Max latency, \
      u16 Continuation number, tmo Supervision timeout
    207e LE Subrate Request | handle, u16 Min subrate, u16 Max subrate, u16 Max latency, \
      u16 Continuation number, tmo Supervision timeout
    207f LE Set Extended Advertising Parameters v2 | x8 Handle, properties Properties, \
      slot24 Min advertising interval, slot24 Max advertising interval, channels Channel map, \
      =own Own address type, =address Peer address type, addr Peer address, =advfilter Filter policy, \
      dbm TX power, =phy Primary PHY, x8 Secondary max skip, =phy Secondary PHY, x8 SID, \
      =enable Scan request notifications, =codedoption Primary PHY options, \
      =codedoption Secondary PHY options | status, dbm TX power (selected)
    2082 LE Set Periodic Advertising Subevent Data | x8 Advertising handle, times Number of subevents, \
      u8 Subevent, u8 Response slot start, u8 Response slot count, data Data length | status, \
      x8 Advertising handle
    2083 LE Set Periodic Advertising Response Data | u16 Sync handle, u16 Request event, \
      u8 Request subevent, u8 Response subevent, u8 Response slot, data Data length | status, \
      u16 Sync handle
    2084 LE Set Periodic Sync Subevent | u16 Sync handle, &periodic Properties, times Number of subevents, \
      u8 Subevent | status, u16 Sync handle
    2085 LE Extended Create Connection v2 | x8 Advertising handle, u8 Subevent, =initfilter Filter policy, \
      =own Own address type, =address Peer address type, addr Peer address, phys Initiating PHYs, \
      slot Scan interval, slot Scan window, conn Min connection interval, conn Max connection interval, \
      n16 Connection latency, tmo Supervision timeout, slot Min connection length, \
      slot Max connection length
    2086 LE Set Periodic Advertising Parameters v2 | x8 Advertising handle, conn Min interval, \
      conn Max interval, &periodic Properties, u8 Number of subevents, conn8 Subevent interval, \
      conn8 Response slot delay, u8 Response slot spacing, u8 Number of response slots | status, \
      x8 Advertising handle
    """
}

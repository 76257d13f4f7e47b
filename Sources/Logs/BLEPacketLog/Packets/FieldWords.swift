/// Names for the values of numbers and for the bits of masks. Core 5.4, Vol 4, Part E, 7, and BlueZ's
/// `doc/mgmt-api.txt`. Names are from `btmon` 5.66.
package enum FieldWords {
  /// Names of values or bits, and the number of bytes of the number or mask.
  package struct Names: Sendable {
    package let words: [UInt16: String]
    package let byteCount: Int
  }

  /// Names by the identifier that follows `=` or `&` in a layout.
  package static let byName: [String: Names] = {
    var all: [String: Names] = [:]
    for section in (values + bits).split(separator: "@") {
      let lines = section.split(separator: "\n", maxSplits: 1)
      guard lines.count == 2 else { continue }
      let title = lines[0].split(separator: " ")
      all[String(title[0])] = Names(
        words: PacketLayout.names(String(lines[1])), byteCount: title.count > 1 ? Int(title[1]) ?? 1 : 1)
    }
    return all
  }()

  /// Address types of HCI events. Core 5.4, Vol 4, Part E, 7.7.65.2.
  package static let addressTypes: [UInt16: String] = [
    0: "Public", 1: "Random", 2: "Resolved Public", 3: "Resolved Random", 0xFE: "Anonymous",
    0xFF: "Unresolved",
  ]

  /// Address types of the management interface.
  package static let deviceTypes: [UInt16: String] = [0: "BR/EDR", 1: "LE Public", 2: "LE Random"]

  /// Sections of lines with a value in hexadecimal and its name. The first line of a section has the
  /// identifier, and the number of bytes unless it is 1.
  private static let values = """
    @enable
    00 Disabled
    01 Enabled
    02 Enabled with AES-CCM
    @scans
    00 No Scans
    01 Inquiry Scan
    02 Page Scan
    03 Inquiry Scan + Page Scan
    @scantype
    00 Standard Scan
    01 Interlaced Scan
    @inquirymode
    00 Standard Inquiry Result
    01 Inquiry Result with RSSI
    02 Inquiry Result with RSSI or Extended Inquiry Result
    @fec
    00 Not required
    01 Required
    @own
    00 Public
    01 Random
    02 Resolved Public
    03 Resolved Random
    @role
    00 Central
    01 Peripheral
    @link
    00 SCO
    01 ACL
    02 eSCO
    @phy
    00 No packets
    01 LE 1M
    02 LE 2M
    03 LE Coded
    @scan
    00 Passive
    01 Active
    @scanfilter
    00 Accept all advertisement
    01 Ignore not in accept list
    02 Accept all inc. directed unresolved RPA
    03 Ignore not in accept list exc. directed unresolved RPA
    @initfilter
    00 Accept list is not used
    01 Accept list is used
    @advfilter
    00 Allow Scan Request from Any, Allow Connect Request from Any
    01 Allow Scan Request from Accept List Only, Allow Connect Request from Any
    02 Allow Scan Request from Any, Allow Connect Request from Accept List Only
    03 Allow Scan Request from Accept List Only, Allow Connect Request from Accept List Only
    @advtype
    00 Connectable undirected - ADV_IND
    01 Connectable directed - ADV_DIRECT_IND (high duty cycle)
    02 Scannable undirected - ADV_SCAN_IND
    03 Non connectable undirected - ADV_NONCONN_IND
    04 Connectable directed - ADV_DIRECT_IND (low duty cycle)
    @advevent
    00 Connectable undirected - ADV_IND
    01 Connectable directed - ADV_DIRECT_IND
    02 Scannable undirected - ADV_SCAN_IND
    03 Non connectable undirected - ADV_NONCONN_IND
    04 Scan response - SCAN_RSP
    @operation
    00 Intermediate fragment
    01 First fragment
    02 Last fragment
    03 Complete
    04 Unchanged data
    @fragment
    00 Fragment all
    01 Minimize fragmentation
    @privacy
    00 Use Network Privacy
    01 Use Device Privacy
    @algorithm
    00 #1
    01 #2
    @version
    00 Bluetooth 1.0b
    01 Bluetooth 1.1
    02 Bluetooth 1.2
    03 Bluetooth 2.0
    04 Bluetooth 2.1
    05 Bluetooth 3.0
    06 Bluetooth 4.0
    07 Bluetooth 4.1
    08 Bluetooth 4.2
    09 Bluetooth 5.0
    0a Bluetooth 5.1
    0b Bluetooth 5.2
    0c Bluetooth 5.3
    0d Bluetooth 5.4
    @io
    00 DisplayOnly
    01 DisplayYesNo
    02 KeyboardOnly
    03 NoInputNoOutput
    04 KeyboardDisplay
    @oob
    00 Authentication data not present
    01 Authentication data from remote device present
    @pairing
    01 Passkey entry failed
    02 OOB not available
    03 Authentication requirements
    04 Confirm value failed
    05 Pairing not supported
    06 Encryption key size
    07 Command not supported
    08 Unspecified reason
    09 Repeated attempts
    0a Invalid parameters
    0b DHKey check failed
    0c Numeric comparison failed
    0d BR/EDR pairing in progress
    0e Cross-transport Key Derivation/Generation not allowed
    0f Key rejected
    @keypress
    00 Passkey entry started
    01 Passkey digit entered
    02 Passkey digit erased
    03 Passkey cleared
    04 Passkey entry completed
    @reject
    0000 Command not understood
    0001 Signaling MTU exceeded
    0002 Invalid CID in request
    @update
    0000 Connection Parameters accepted
    0001 Connection Parameters rejected
    @creditresult
    0000 Connection successful
    0002 Connection refused - PSM not supported
    0004 Connection refused - no resources available
    0005 Connection refused - insufficient authentication
    0006 Connection refused - insufficient authorization
    0007 Connection refused - insufficient encryption key size
    0008 Connection refused - insufficient encryption
    0009 Connection refused - invalid Source CID
    000a Connection refused - Source CID already allocated
    000b Connection refused - unacceptable parameters
    @reconfigured
    0000 Reconfiguration successful
    0001 Reconfiguration failed - reduction in MTU not allowed
    0002 Reconfiguration failed - reduction in MPS not allowed
    0003 Reconfiguration failed - invalid Destination CID
    0004 Reconfiguration failed - unacceptable parameters
    @repetition
    00 R0
    01 R1
    02 R2
    @pagescanmode
    00 Mandatory
    01 Optional I
    02 Optional II
    03 Optional III
    @pageperiod
    00 P0
    01 P1
    02 P2
    @roleswitch
    00 Stay central
    01 Allow peripheral
    @keyflag
    00 Semi-permanent
    01 Temporary
    @effort
    00 No retransmissions
    01 Optimize for power consumption
    02 Optimize for link quality
    ff Don't care
    @oobsent
    00 Authentication data not present
    01 P-192 authentication data present
    02 P-256 authentication data present
    03 P-192 and P-256 authentication data present
    @oobreceived
    00 Authentication data not present
    01 Authentication data present
    @bonding
    00 No Bonding - MITM not required
    01 No Bonding - MITM required
    02 Dedicated Bonding - MITM not required
    03 Dedicated Bonding - MITM required
    04 General Bonding - MITM not required
    05 General Bonding - MITM required
    @linkkey
    00 Combination key
    01 Local Unit key
    02 Remote Unit key
    03 Debug Combination key
    04 Unauthenticated Combination key from P-192
    05 Authenticated Combination key from P-192
    06 Changed Combination key
    07 Unauthenticated Combination key from P-256
    08 Authenticated Combination key from P-256
    @service
    00 No traffic
    01 Best effort
    02 Guaranteed
    @direction
    00 Outgoing
    01 Incoming
    @filter
    00 Clear All Filters
    01 Inquiry Result
    02 Connection Setup
    @inquiryfilter
    00 Return responses from all devices
    01 Device with specific Class of Device
    02 Device with specific BD_ADDR
    @setupfilter
    00 Allow connections all devices
    01 Allow connections with specific Class of Device
    02 Allow connections with specific BD_ADDR
    @accept
    01 Do not auto accept
    02 Auto accept without role switch
    03 Auto accept with role switch
    @pin
    00 Variable
    01 Fixed
    @authenticate
    00 Authentication not required
    01 Authentication required for all connections
    @encrypt
    00 Encryption not required
    01 Encryption required for all connections
    @level
    00 Current Transmit Power Level
    01 Maximum Transmit Power Level
    @flowcontrol
    00 Off
    01 ACL Data Packets
    02 Synchronous Data Packets
    03 ACL and Synchronous Data Packets
    @flush
    00 Automatic flushable only
    @domain
    00 Regulatory domain unknown
    01 Regulatory domain known
    @flowmode
    00 Packet based
    01 Data block based
    @part
    00 Continuation fragment
    01 Starting fragment
    02 Ending fragment
    03 No fragmentation
    @path
    00 Input (Host to Controller)
    01 Output (Controller to Host)
    @datapath
    00 HCI
    ff Disabled
    @codec
    00 u-law log
    01 A-law log
    02 CVSD
    03 Transparent
    04 Linear PCM
    05 mSBC
    06 LC3
    07 G.729A
    ff Vendor specific
    @pcm
    00 Not applicable
    01 1's complement
    02 2's complement
    03 Sign-magnitude
    04 Unsigned
    @airmode
    00 u-law log
    01 A-law log
    02 CVSD
    03 Transparent
    @clocktype
    00 Local clock
    01 Piconet clock
    @loopback
    00 No Loopback
    01 Local Loopback
    02 Remote Loopback
    @country
    00 North America, Europe*, Japan
    01 France
    @amp
    00 Present
    01 Bluetooth only
    02 No capacity
    03 Low capacity
    04 Medium capacity
    05 High capacity
    06 Full capacity
    @amptype
    00 Primary BR/EDR Controller
    01 802.11 AMP Controller
    @loss
    00 Unknown
    01 Range related
    02 Bandwidth related
    03 Resolving conflict
    04 Interference
    @transport
    00 Disabled
    01 WCI-1
    02 WCI-2
    @interval
    00 MWS transmit
    01 MWS receive
    02 MWS transmit/receive
    03 MWS inactive
    04 From frame
    @mode
    00 Active
    01 Hold
    02 Sniff
    03 Park
    @modulation
    00 Standard
    01 Stable
    @testphy
    01 LE 1M
    02 LE 2M
    03 LE Coded with S=8
    04 LE Coded with S=2
    @payload
    00 PRBS9 sequence 11111111100000111101...
    01 Repeated 11110000
    02 Repeated 10101010
    03 PRBS15
    04 Repeated 11111111
    05 Repeated 00000000
    06 Repeated 00001111
    07 Repeated 01010101
    @isopayload
    00 Zero length
    01 Variable length
    02 Maximum length
    @cte
    00 AoA Constant Tone Extension
    01 AoD Constant Tone Extension with 1us slots
    02 AoD Constant Tone Extension with 2us slots
    ff No Constant Tone Extension
    @datastatus
    00 Complete
    01 Incomplete, more data to come
    02 Incomplete, data truncated, no more to come
    ff Failed to receive
    @synctransfer
    00 Disabled
    01 Enabled with report events disabled
    02 Enabled with report events enabled
    03 Enabled with report events enabled, duplicates filtered
    @accuracy
    00 251 ppm to 500 ppm
    01 151 ppm to 250 ppm
    02 101 ppm to 150 ppm
    03 76 ppm to 100 ppm
    04 51 ppm to 75 ppm
    05 31 ppm to 50 ppm
    06 21 ppm to 30 ppm
    07 0 ppm to 20 ppm
    @packing
    00 Sequential
    01 Interleaved
    @framing
    00 Unframed
    01 Framed
    @encryption
    00 Unencrypted
    01 Encrypted
    @clockaction
    00 Switch to a more accurate clock
    01 Switch to a less accurate clock
    @codedoption
    00 No preference
    01 Prefers S=2
    02 Prefers S=8
    03 Requires S=2
    04 Requires S=8
    @discoverable
    00 Disabled
    01 General
    02 Limited
    @advertise
    00 Disabled
    01 Enabled
    02 Connectable
    @secure
    00 Disabled
    01 Enabled
    02 Only
    @debugkeys
    00 Disabled
    01 Enabled
    02 Generate
    @private
    00 Disabled
    01 Enabled
    02 Limited
    @no
    00 No
    01 Yes
    @action
    00 Background scan for device
    01 Allow incoming connection
    02 Auto-connect remote device
    @longtermkey
    00 Unauthenticated legacy key
    01 Authenticated legacy key
    02 Unauthenticated key from P-256
    03 Authenticated key from P-256
    04 Debug key from P-256
    @signaturekey
    00 Unauthenticated local CSRK
    01 Unauthenticated remote CSRK
    02 Authenticated local CSRK
    03 Authenticated remote CSRK
    @blockedkey
    00 Link Key
    01 Long Term Key
    02 Identity Resolving Key
    @disconnected
    00 Unspecified
    01 Connection timeout
    02 Connection terminated by local host
    03 Connection terminated by remote host
    04 Connection terminated due to authentication failure
    05 Connection terminated by local host for suspend
    @deviceid 2
    0000 Disabled
    0001 Bluetooth SIG
    0002 USB Implementer's Forum
    @suspend
    00 Controller running (failed to suspend)
    01 Disconnected and not scanning
    02 Page scanning and/or passive scanning
    @resume
    00 Resume from non-Bluetooth wake source
    01 Wake due to unexpected event
    02 Remote wake due to peer device connection
    @controller
    00 Primary
    01 Unconfigured
    02 AMP
    @bus
    00 Virtual
    01 USB
    02 PCCARD
    03 UART
    04 RS232
    05 PCI
    06 SDIO
    07 SPI
    08 I2C
    09 SMD
    0a VIRTIO
    @mgmtstatus
    00 Success
    01 Unknown Command
    02 Not Connected
    03 Failed
    04 Connect Failed
    05 Authentication Failed
    06 Not Paired
    07 No Resources
    08 Timeout
    09 Already Connected
    0a Busy
    0b Rejected
    0c Not Supported
    0d Invalid Parameters
    0e Disconnected
    0f Not Powered
    10 Cancelled
    11 Invalid Index
    12 RFKilled
    13 Already Paired
    14 Permission Denied
    """

  /// Sections of lines with a bit's number in hexadecimal and its name.
  private static let bits = """
    @aclpackets 2
    01 2-DH1 may not be used
    02 3-DH1 may not be used
    03 DM1 may be used
    04 DH1 may be used
    08 2-DH3 may not be used
    09 3-DH3 may not be used
    0a DM3 may be used
    0b DH3 may be used
    0c 2-DH5 may not be used
    0d 3-DH5 may not be used
    0e DM5 may be used
    0f DH5 may be used
    @scopackets 2
    00 HV1 may be used
    01 HV2 may be used
    02 HV3 may be used
    03 EV3 may be used
    04 EV4 may be used
    05 EV5 may be used
    06 2-EV3 may not be used
    07 3-EV3 may not be used
    08 2-EV5 may not be used
    09 3-EV5 may not be used
    @policy 2
    00 Enable Role Switch
    01 Enable Hold Mode
    02 Enable Sniff Mode
    03 Enable Park State
    @hold
    00 Suspend Page Scan
    01 Suspend Inquiry Scan
    02 Suspend Periodic Inquiries
    @pairingoptions
    00 Remote public key validation
    @codectransports
    00 Codec supported over BR/EDR ACL
    01 Codec supported over BR/EDR SCO and eSCO
    02 Codec supported over LE CIS
    03 Codec supported over LE BIS
    @anyphy
    00 No TX PHY preference
    01 No RX PHY preference
    @somephys
    00 LE 1M
    01 LE 2M
    02 LE Coded
    @periodic 2
    06 Include TxPower
    @syncoptions
    00 Use Periodic Advertiser List
    01 Reporting initially disabled
    @notones
    00 Do not sync to packets with AoA CTE
    01 Do not sync to packets with AoD CTE 1us
    02 Do not sync to packets with AoD CTE 2us
    03 Do not sync to packets with type 3 AoD
    04 Do not sync to packets without CTE
    @tones
    00 AoA Constant Tone Extension
    01 AoD Constant Tone Extension with 1us slots
    02 AoD Constant Tone Extension with 2us slots
    @rates
    00 Transmission with 1us slots (AoD)
    01 Sampling with 1us slots (AoD)
    02 Sampling with 1us slots (AoA)
    @paths
    00 Input (Host to Controller)
    01 Output (Controller to Host)
    @reasons
    00 Advertising data
    01 Scan response data
    @powerflags
    00 At minimum level
    01 At maximum level
    @states 8
    00 Non-connectable Advertising State
    01 Scannable Advertising State
    02 Connectable Advertising State
    03 High Duty Cycle Directed Advertising State
    04 Passive Scanning State
    05 Active Scanning State
    06 Initiating State and Connection State (Central Role)
    07 Connection State (Peripheral Role)
    08 Non-connectable Advertising State and Passive Scanning State
    09 Scannable Advertising State and Passive Scanning State
    0a Connectable Advertising State and Passive Scanning State
    0b High Duty Cycle Directed Advertising State and Passive Scanning State
    0c Non-connectable Advertising State and Active Scanning State
    0d Scannable Advertising State and Active Scanning State
    0e Connectable Advertising State and Active Scanning State
    0f High Duty Cycle Directed Advertising State and Active Scanning State
    10 Non-connectable Advertising State and Initiating State
    11 Scannable Advertising State and Initiating State
    12 Non-connectable Advertising State and Connection State (Central Role)
    13 Scannable Advertising State and Connection State (Central Role)
    14 Non-connectable Advertising State and Connection State (Peripheral Role)
    15 Scannable Advertising State and Connection State (Peripheral Role)
    16 Passive Scanning State and Initiating State
    17 Active Scanning State and Initiating State
    18 Passive Scanning State and Connection State (Central Role)
    19 Active Scanning State and Connection State (Central Role)
    1a Passive Scanning State and Connection State (Peripheral Role)
    1b Active Scanning State and Connection State (Peripheral Role)
    1c Initiating State and Connection State (Central Role) and Central Role & Central Role
    1d Low Duty Cycle Directed Advertising State
    1e Low Duty Cycle Directed Advertising State and Passive Scanning State
    1f Low Duty Cycle Directed Advertising State and Active Scanning State
    20 Connectable Advertising State and Initiating State and Central Role & Peripheral Role
    21 High Duty Cycle Directed Advertising State and Initiating State and Central Role & Peripheral Role
    22 Low Duty Cycle Directed Advertising State and Initiating State and Central Role & Peripheral Role
    23 Connectable Advertising State and Connection State (Central Role) and Central Role & Peripheral Role
    24 High Duty Cycle Directed Advertising State and Connection State (Central Role) and Central Role & Peripheral Role
    25 Low Duty Cycle Directed Advertising State and Connection State (Central Role) and Central Role & Peripheral Role
    26 Connectable Advertising State and Connection State (Peripheral Role) and Central Role & Peripheral Role
    27 High Duty Cycle Directed Advertising State and Connection State (Peripheral Role) and Peripheral Role & Peripheral Role
    28 Low Duty Cycle Directed Advertising State and Connection State (Peripheral Role) and Peripheral Role & Peripheral Role
    29 Initiating State and Connection State (Peripheral Role) and Central Role & Peripheral Role
    @settings 4
    00 Powered
    01 Connectable
    02 Fast Connectable
    03 Discoverable
    04 Bondable
    05 Link Security
    06 Secure Simple Pairing
    07 BR/EDR
    08 High Speed
    09 Low Energy
    0a Advertising
    0b Secure Connections
    0c Debug Keys
    0d Privacy
    0e Controller Configuration
    0f Static Address
    10 PHY Configuration
    11 Wideband Speech
    12 CIS Central
    13 CIS Peripheral
    14 ISO Broadcaster
    15 Sync Receiver
    @options 4
    00 External configuration
    01 Bluetooth public address configuration
    @discovery
    00 BR/EDR
    01 LE Public
    02 LE Random
    @advflags 4
    00 Switch into Connectable mode
    01 Advertise as Discoverable
    02 Advertise as Limited Discoverable
    03 Add Flags field to Advertising Data
    04 Add TX Power field to Advertising Data
    05 Add Appearance field to Scan Response
    06 Add Local Name in Scan Response
    07 Advertise in 1M on Secondary channel
    08 Advertise in 2M on Secondary channel
    09 Advertise in CODED on Secondary channel
    0a Support setting Tx Power
    0b Support HW offload
    0c Use provided duration parameter
    0d Use provided timeout parameter
    0e Use provided interval parameters
    0f Use provided tx power parameter
    10 Contain Scan Response Data
    @configuredphys 4
    00 BR 1M 1SLOT
    01 BR 1M 3SLOT
    02 BR 1M 5SLOT
    03 EDR 2M 1SLOT
    04 EDR 2M 3SLOT
    05 EDR 2M 5SLOT
    06 EDR 3M 1SLOT
    07 EDR 3M 3SLOT
    08 EDR 3M 5SLOT
    09 LE 1M TX
    0a LE 1M RX
    0b LE 2M TX
    0c LE 2M RX
    0d LE CODED TX
    0e LE CODED RX
    @feature 4
    00 Active
    01 Settings change
    @deviceflags 4
    00 Remote Wakeup
    01 Device Privacy Mode
    @monitors 4
    00 OR Patterns
    @found 4
    00 Confirm Name
    01 Legacy Pairing
    02 Not Connectable
    03 Connection Locally Initiated
    """
}

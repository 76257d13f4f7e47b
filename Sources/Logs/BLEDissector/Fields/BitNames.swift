import BLEPacketLog
import BLEWire

/// Names of the bits of masks, if the layout of the packet does not contain the names. Names are from `btmon`
/// 5.66.
enum BitNames {
  static func words(of bits: UInt64, _ names: [String]) -> [String] {
    set(bits).map { $0 < names.count ? names[$0] : "bit \($0)" }
  }

  static func words(of bits: UInt64, _ names: [UInt16: String]) -> [String] {
    set(bits).map { names[UInt16($0)] ?? "bit \($0)" }
  }

  private static func set(_ bits: UInt64) -> [Int] { (0..<64).filter { bits & 1 << UInt64($0) != 0 } }

  /// Names of LE features. Core 5.4, Vol 6, Part B, 4.6.
  static let features = [
    "LE Encryption", "Connection Parameter Request Procedure", "Extended Reject Indication",
    "Peripheral-initiated Features Exchange", "LE Ping", "LE Data Packet Length Extension", "LL Privacy",
    "Extended Scanner Filter Policies", "LE 2M PHY", "Stable Modulation Index - Transmitter",
    "Stable Modulation Index - Receiver", "LE Coded PHY", "LE Extended Advertising",
    "LE Periodic Advertising",
    "Channel Selection Algorithm #2", "LE Power Class 1", "Minimum Number of Used Channels Procedure",
    "Connection CTE Request", "Connection CTE Response", "Connectionless CTE Transmitter",
    "Connectionless CTE Receiver", "Antenna Switching During CTE Transmission (AoD)",
    "Antenna Switching During CTE Reception (AoA)", "Receiving Constant Tone Extensions",
    "Periodic Advertising Sync Transfer - Sender", "Periodic Advertising Sync Transfer - Recipient",
    "Sleep Clock Accuracy Updates", "Remote Public Key Validation", "Connected Isochronous Stream - Central",
    "Connected Isochronous Stream - Peripheral", "Isochronous Broadcaster", "Synchronized Receiver",
    "Connected Isochronous Stream (Host Support)", "LE Power Control Request", "LE Power Control Request",
    "LE Path Loss Monitoring", "Periodic Advertising ADI support", "Connection Subrating",
    "Connection Subrating (Host Support)", "Channel Classification",
  ]

  /// Names of the bits of an event type. Core 5.4, Vol 4, Part E, 7.7.65.13.
  static let eventTypes = [
    "Connectable", "Scannable", "Directed", "Scan response", "Use legacy advertising PDUs",
    "Data incomplete, more to come", "Data truncated",
  ]

  /// Returns the names of the bits of the properties of extended advertising, or of the event type of a
  /// report, with the type of a legacy PDU. Core 5.4, Vol 4, Part E, 7.7.65.13 and 7.8.53.
  static func advertising(_ bits: UInt16, isReport: Bool) -> [String] {
    let legacy = bits & 0x10 != 0
    let pdu = isReport ? reportedPDUs[bits & 0x1F] : advertisedPDUs[bits & 0x1F]
    guard isReport else {
      return words(of: UInt64(bits), properties).map { name in
        legacy && name == properties[4] ? "\(name): \(pdu ?? "Reserved")" : name
      }
    }
    return words(of: UInt64(bits), eventTypes) + (legacy ? [pdu ?? "Reserved"] : [])
  }

  private static let properties = [
    "Connectable", "Scannable", "Directed", "High Duty Cycle Directed Connectable",
    "Use legacy advertising PDUs", "Anonymous advertising", "Include TxPower",
  ]

  private static let advertisedPDUs: [UInt16: String] = [
    0x13: "ADV_IND", 0x15: "ADV_DIRECT_IND (low duty cycle)", 0x1D: "ADV_DIRECT_IND (high duty cycle)",
    0x12: "ADV_SCAN_IND", 0x10: "ADV_NONCONN_IND",
  ]

  private static let reportedPDUs: [UInt16: String] = [
    0x13: "ADV_IND", 0x15: "ADV_DIRECT_IND", 0x12: "ADV_SCAN_IND", 0x10: "ADV_NONCONN_IND",
    0x1A: "SCAN_RSP to an ADV_SCAN_IND", 0x1B: "SCAN_RSP to an ADV_IND",
  ]

  /// Returns the names of the commands in a mask of supported commands. Core 5.4, Vol 4, Part E, 6.27.
  static func commands(_ mask: Span<UInt8>) -> [String] {
    var names: [String] = []
    for octet in mask.indices {
      for bit in 0..<8 where mask[octet] & 1 << UInt8(bit) != 0 {
        let opcode = supportedCommands[8 * octet + bit]
        names.append(
          opcode.flatMap { HCICommandTable.layouts[$0]?.name } ?? "Octet \(octet) - Bit \(bit)")
      }
    }
    return names
  }

  /// Returns the channels of a channel map; consecutive channels form a range such as "Channel 0-36".
  static func channels(_ map: Span<UInt8>) -> [String] {
    var ranges: [ClosedRange<Int>] = []
    for channel in 0..<8 * map.count where map[channel / 8] & 1 << UInt8(channel % 8) != 0 {
      if let last = ranges.last, last.upperBound == channel - 1 {
        ranges[ranges.count - 1] = last.lowerBound...channel
      } else {
        ranges.append(channel...channel)
      }
    }
    return ranges.map {
      $0.count == 1 ? "Channel \($0.lowerBound)" : "Channel \($0.lowerBound)-\($0.upperBound)"
    }
  }

  /// Returns the parts of a voice setting. Core 5.4, Vol 4, Part E, 6.12.
  static func voice(_ setting: UInt16) -> [String] {
    func name(_ names: [String], _ shift: UInt16) -> String { names[Int(setting >> shift & 3)] }
    let isLinear = setting >> 8 & 3 == 0
    var names = [
      "Input Coding: " + name(["Linear", "u-law", "A-law", "Reserved"], 8),
      "Input Data Format: " + name(["1's complement", "2's complement", "Sign-Magnitude", "Unsigned"], 6),
    ]
    if isLinear {
      names.append("Input Sample Size: " + (setting & 0x20 == 0 ? "8-bit" : "16-bit"))
      names.append("# of bits padding at MSB: \(setting >> 2 & 7)")
    }
    names.append("Air Coding Format: " + name(["CVSD", "u-law", "A-law", "Transparent Data"], 0))
    return names
  }

  /// LMP features by page. Core 5.4, Vol 2, Part C, 3.3.
  static let lmpFeatures: [UInt8: [UInt16: String]] = [
    0: PacketLayout.names(
      """
      00 3 slot packets
      01 5 slot packets
      02 Encryption
      03 Slot offset
      04 Timing accuracy
      05 Role switch
      06 Hold mode
      07 Sniff mode
      08 Park state
      09 Power control requests
      0a Channel quality driven data rate (CQDDR)
      0b SCO link
      0c HV2 packets
      0d HV3 packets
      0e u-law log synchronous data
      0f A-law log synchronous data
      10 CVSD synchronous data
      11 Paging parameter negotiation
      12 Power control
      13 Transparent synchronous data
      14 Flow control lag (least significant bit)
      15 Flow control lag (middle bit)
      16 Flow control lag (most significant bit)
      17 Broadcast Encryption
      19 Enhanced Data Rate ACL 2 Mbps mode
      1a Enhanced Data Rate ACL 3 Mbps mode
      1b Enhanced inquiry scan
      1c Interlaced inquiry scan
      1d Interlaced page scan
      1e RSSI with inquiry results
      1f Extended SCO link (EV3 packets)
      20 EV4 packets
      21 EV5 packets
      23 AFH capable peripheral
      24 AFH classification peripheral
      25 BR/EDR Not Supported
      26 LE Supported (Controller)
      27 3-slot Enhanced Data Rate ACL packets
      28 5-slot Enhanced Data Rate ACL packets
      29 Sniff subrating
      2a Pause encryption
      2b AFH capable central
      2c AFH classification central
      2d Enhanced Data Rate eSCO 2 Mbps mode
      2e Enhanced Data Rate eSCO 3 Mbps mode
      2f 3-slot Enhanced Data Rate eSCO packets
      30 Extended Inquiry Response
      31 Simultaneous LE and BR/EDR (Controller)
      33 Secure Simple Pairing
      34 Encapsulated PDU
      35 Erroneous Data Reporting
      36 Non-flushable Packet Boundary Flag
      38 Link Supervision Timeout Changed Event
      39 Inquiry TX Power Level
      3a Enhanced Power Control
      3f Extended features
      """),
    1: PacketLayout.names(
      """
      00 Secure Simple Pairing (Host Support)
      01 LE Supported (Host)
      02 Simultaneous LE and BR/EDR (Host)
      03 Secure Connections (Host Support)
      """),
    2: PacketLayout.names(
      """
      00 Connectionless Peripheral Broadcast - Central
      01 Connectionless Peripheral Broadcast - Peripheral
      02 Synchronization Train
      03 Synchronization Scan
      04 Inquiry Response Notification Event
      05 Generalized interlaced scan
      06 Coarse Clock Adjustment
      08 Secure Connections (Controller Support)
      09 Ping
      0a Slot Availability Mask
      0b Train nudging
      """),
  ]

  /// Opcodes by bit number in the mask of supported commands, one line for each byte.
  private static let supportedCommands: [Int: UInt16] = {
    var opcodes: [Int: UInt16] = [:]
    for (bit, word) in supportedText.split(whereSeparator: { " \n".contains($0) }).enumerated() {
      opcodes[bit] = UInt16(word, radix: 16)
    }
    return opcodes
  }()

  private static let supportedText = """
    0401 0402 0403 0404 0405 0406 0407 0408
    0409 040a 040b 040c 040d 040e 040f 0411
    0413 0415 0417 0419 041a 041b 041c 041d
    041f 0420 ---- ---- ---- ---- ---- ----
    ---- 0801 0803 0804 0805 0806 0807 0809
    080b 080c 080d 080e 080f 0810 0c01 0c03
    0c05 0c08 0c09 0c0a 0c0b 0c0d 0c11 0c12
    0c13 0c14 0c15 0c16 0c17 0c18 0c19 0c1a
    0c1b 0c1c 0c1d 0c1e 0c1f 0c20 0c21 0c22
    0c23 0c24 0c25 0c26 0c27 0c28 0c29 0c2a
    0c2b 0c2c 0c2d 0c2e 0c2f 0c31 0c33 0c35
    0c36 0c37 0c38 0c39 0c3a 0c3b 0c3c 0c3d
    0c3e 0c3f ---- ---- 0c42 0c43 0c44 0c45
    0c46 0c47 0c48 0c49 ---- ---- ---- ----
    ---- ---- ---- 1001 1002 1003 1004 1005
    1007 1009 1401 1402 1403 1405 1406 1407
    1801 1802 1803 0428 0429 042a ---- ----
    0c51 0c52 0c53 ---- 0811 0c55 0c56 0c57
    0c58 0c59 0c5a 0c5b ---- ---- ---- 042b
    042c 042d 042e 042f 0430 1804 0c5f 0433
    ---- ---- 0c60 0434 1408 ---- ---- ----
    0435 0436 0437 0438 0439 043a 043b 043c
    0c61 0c62 0c63 0c64 0c65 1409 140a 140b
    0c66 0c67 100a ---- ---- 1807 1808 1809
    0c68 ---- 0c69 0c6a 0c6b 0c6c 0c6d ----
    2001 2002 2003 ---- 2005 2006 2007 2008
    2009 200a 200b 200c 200d 200e 200f 2010
    2011 2012 2013 2014 2015 2016 2017 2018
    2019 201a 201b 201c 201d 201e 201f ----
    ---- ---- ---- 043d 043e 100b 0c6e 0c6f
    0c70 0c71 0c72 140c 0c73 140d 043f 0440
    0441 0442 0443 0444 0c74 0c75 0c76 0c77
    0c78 0445 0c79 0c7a 0c7b 0c7c 0c7d 180a
    0c7e 0c7f 0c80 0c81 2020 2021 2022 2023
    2024 2025 2026 2027 2028 2029 202a 202b
    202c 202d 202e 202f 2030 2031 2032 2033
    2034 2035 2036 2037 2038 2039 203a 203b
    203c 203d 203e 203f 2040 2041 2042 2043
    2044 2045 2046 2047 2048 2049 204a 204b
    204c 204d 204e 204f 2050 2051 2052 2053
    2054 2055 2056 2057 2058 2059 205a 205b
    205c 205d 205e 100c 205f 2060 2061 2062
    2063 2064 2065 2066 2067 2068 2069 206a
    206b 206c 206d 206e 206f 2070 2071 2072
    2073 2074 2075 2076 2077 2078 2079 207a
    207b 0c82 100d 100e 100f 0c83 207c 0c84
    207d 207e 207f ---- ---- 2082 2083 2084
    2085 2086 ---- ---- ---- ---- ---- ----
    """
}

/// Names for the values of enumeration fields. Core 5.4, Vol 4, Part E, 7. Names are those of `btmon` 5.66.
enum FieldWords {
  /// Names of values, by the identifier that follows the equals sign in a layout.
  static let byName: [String: [UInt16: String]] = {
    var all = ["company": NumberNames.companies]
    for section in text.split(separator: "@") {
      let lines = section.split(separator: "\n", maxSplits: 1)
      guard lines.count == 2 else { continue }
      all[String(lines[0])] = PacketLayout.names(String(lines[1]))
    }
    return all
  }()

  /// Address types of HCI events. Core 5.4, Vol 4, Part E, 7.7.65.2.
  static let addressTypes: [UInt16: String] = [
    0: "Public", 1: "Random", 2: "Resolved Public", 3: "Resolved Random", 0xFE: "Anonymous",
    0xFF: "Unresolved",
  ]

  private static let text = """
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
    """
}

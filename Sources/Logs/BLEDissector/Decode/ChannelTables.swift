/// Commands of the LE signalling channel. Core 5.4, Vol 3, Part A, 4; names of `btmon` 5.66.
enum SignallingTable {
  static let layouts = PacketLayout.table(
    """
    01 Command Reject | ==reject Reason
    06 Disconnection Request | u16 Destination CID, u16 Source CID
    07 Disconnection Response | u16 Destination CID, u16 Source CID
    12 Connection Parameter Update Request | conn Min interval, conn Max interval, n16 Peripheral latency, \
      tmo Timeout
    13 Connection Parameter Update Response | ==update Result
    14 LE Connection Request | n16 PSM, u16 Source CID, u16 MTU, u16 MPS, u16 Credits
    15 LE Connection Response | u16 Destination CID, u16 MTU, u16 MPS, u16 Credits, ==creditresult Result
    16 LE Flow Control Credit | u16 Source CID, u16 Credits
    17 Enhanced Credit Connection Request | n16 PSM, u16 MTU, u16 MPS, u16 Credits, all Source CIDs, u16 Source CID
    18 Enhanced Credit Connection Response | u16 MTU, u16 MPS, u16 Credits, ==creditresult Result, all Destination CIDs, \
      u16 Destination CID
    19 Enhanced Credit Reconfigure Request | u16 MTU, u16 MPS, all Source CIDs, u16 Source CID
    1a Enhanced Credit Reconfigure Respond | ==reconfigured Result
    """)
}

/// Commands of the Security Manager. Core 5.4, Vol 3, Part H, 3.3 to 3.6; names of `btmon` 5.66.
enum SMPTable {
  static let layouts = PacketLayout.table(
    """
    01 Pairing Request | =io IO capability, =oob OOB data, auth, u8 Max encryption key size, \
      keys Initiator key distribution, keys Responder key distribution
    02 Pairing Response | =io IO capability, =oob OOB data, auth, u8 Max encryption key size, \
      keys Initiator key distribution, keys Responder key distribution
    03 Pairing Confirm | hex16 Confirm value
    04 Pairing Random | hex16 Random value
    05 Pairing Failed | =pairing Reason
    06 Encryption Information | hex16 Long term key
    07 Central Identification | x16 EDIV, x64 Rand
    08 Identity Information | hex16 Identity resolving key
    09 Identity Address Information | =address Address type, addr Address
    0a Signing Information | hex16 Signature key
    0b Security Request | auth
    0c Pairing Public Key | hex32 X, hex32 Y
    0d Pairing DHKey Check | hex16 E
    0e Pairing Keypress Notification | =keypress Type
    """)
}

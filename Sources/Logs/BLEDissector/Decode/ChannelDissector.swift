import BLEPacketLog
import BLEWire
import JSONText

/// Dissects PDUs of the LE signalling channel and of the Security Manager.
enum ChannelDissector {
  /// Dissects the payload of a frame.
  ///
  /// - Returns: a title for text and the fields, which are the members of `l2cap` or `smp` in JSON; `nil` for
  ///   any other channel.
  static func dissect(_ payload: Span<UInt8>, of channelID: UInt16, for reader: FieldList.Reader)
    -> (title: String, fields: [Field])?
  {
    switch channelID {
    case L2CAPFrame.FixedChannel.signalling: signal(payload, reader)
    case L2CAPFrame.FixedChannel.securityManager: securityManager(payload, reader)
    default: nil
    }
  }

  /// Dissects a PDU of the signalling channel. Core 5.4, Vol 3, Part A, 4.
  private static func signal(
    _ payload: Span<UInt8>, _ reader: FieldList.Reader
  ) -> (title: String, fields: [Field]) {
    var list = FieldList(for: reader)
    let layout = payload.isEmpty ? nil : SignallingTable.layouts[UInt16(payload[0])]
    if payload.count >= 2 {
      list.head(payload[0], layout)
      list.member("identifier", payload[1], .hidden)
    }
    do throws(WireError) {
      let signal = try L2CAPSignal(validating: payload)
      list.parameters(layout, signal.data)
      let title =
        "LE L2CAP: \(layout?.name ?? "Unknown") (0x\(hexadecimal(signal.code))) ident \(signal.identifier) "
        + "len \(signal.data.count)"
      return (title, list.fields)
    } catch {
      list.append(Field("problem", .problem("\(error)"), .none))
      list.append(Field(nil, .octets(payload.indices.map { payload[$0] }), .none))
      return ("LE L2CAP: len \(payload.count)", list.fields)
    }
  }

  /// Dissects a PDU of the Security Manager. Core 5.4, Vol 3, Part H, 3.3.
  private static func securityManager(
    _ payload: Span<UInt8>, _ reader: FieldList.Reader
  ) -> (title: String, fields: [Field]) {
    guard !payload.isEmpty else { return ("SMP: len 0", []) }
    var list = FieldList(for: reader)
    let layout = SMPTable.layouts[UInt16(payload[0])]
    list.head(payload[0], layout)
    list.parameters(layout, payload.extracting(1...))
    let name = layout?.name ?? "Unknown"
    return ("SMP: \(name) (0x\(hexadecimal(payload[0]))) len \(payload.count - 1)", list.fields)
  }
}

extension FieldList {
  /// Adds the members whose values are part of the title in text.
  fileprivate mutating func head(_ code: UInt8, _ layout: PacketLayout?) {
    member("code", code, .hidden)
    if let layout { member("name", layout.name, .hidden) }
  }

  fileprivate mutating func parameters(_ layout: PacketLayout?, _ octets: Span<UInt8>) {
    var list = FieldList(for: reader)
    LayoutDissector.dissect(layout?.fields, octets, into: &list)
    append(Field("parameters", .object, .none, children: list.fields))
  }
}

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

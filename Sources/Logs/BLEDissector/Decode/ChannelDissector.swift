import BLEWire
import JSONText

/// PDUs of the LE signalling channel and of the Security Manager.
enum ChannelDissector {
  /// - Returns: a line of text and its fields, which are the members of `l2cap` or `smp` in JSON; `nil` for
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

  /// Core 5.4, Vol 3, Part A, 4.
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

  /// Core 5.4, Vol 3, Part H, 3.3.
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
  /// Adds the members that text has in the title.
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

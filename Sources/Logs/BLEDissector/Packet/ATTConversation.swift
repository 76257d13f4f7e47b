package import BLEWire

/// ATT traffic between two devices, as text. Each PDU has a row. Consecutive PDUs of the same type for the
/// same attribute, such as a stream of notifications, share one row.
package struct ATTConversation: Sendable {
  package struct Row: Sendable {
    package var first: ReceiveTime
    package var last: ReceiveTime
    package var direction: HCIDirection
    /// Name of the PDU as printed by `btmon`.
    package var name: String
    /// Contents of the first PDU of the row.
    package var text: String
    package var count = 1
    fileprivate var opcode: ATTOpcode
    fileprivate var handle: AttributeHandle?
  }

  /// Maximum number of rows kept. Further rows are only counted.
  package static let rowLimit = 5_000
  /// Maximum length of a row's text, in characters.
  private static let textLimit = 400

  package private(set) var rows: [Row] = []
  package private(set) var omittedRows = 0
  /// The last row that was omitted because the limit was reached.
  private var lastOmitted: (ATTOpcode, AttributeHandle?, HCIDirection)?

  package init() {}

  /// Adds a packet. Ignores packets that do not complete an ATT PDU.
  package mutating func take(_ packet: borrowing DecodedPacket) {
    guard let att = packet.att else { return }
    if let row = rows.last, lastOmitted == nil, Self.isStream(att.opcode), row.opcode == att.opcode,
      row.handle == att.handle, row.direction == packet.direction
    {
      rows[rows.count - 1].count += 1
      rows[rows.count - 1].last = packet.time
      return
    }
    guard rows.count < Self.rowLimit else {
      let kind = (att.opcode, att.handle, packet.direction)
      if let last = lastOmitted, Self.isStream(att.opcode), last == kind { return }
      lastOmitted = kind
      omittedRows += 1
      return
    }
    let (name, text) = ATTText.words(att)
    rows.append(
      Row(
        first: packet.time, last: packet.time, direction: packet.direction, name: name,
        text: text.count > Self.textLimit ? text.prefix(Self.textLimit) + " …" : text, opcode: att.opcode,
        handle: att.handle))
  }

  /// Appends the rows of another device.
  package mutating func append(_ other: ATTConversation) {
    rows += other.rows
    omittedRows += other.omittedRows
  }

  /// Returns the name of a PDU as printed by `btmon`.
  package static func name(_ opcode: UInt8) -> String { ATTNames.pdu(opcode) }

  private static func isStream(_ opcode: ATTOpcode) -> Bool {
    opcode.kind == .notification || opcode.kind == .command
  }
}

extension ATTText {
  /// Returns the PDU's name, and the contents of the PDU on one line.
  fileprivate static func words(_ att: borrowing DecodedATT) -> (name: String, text: String) {
    var text = PacketText(isColored: false)
    print(att, into: &text)
    // Omit the first line, which repeats the name.
    let lines = text.octets.split(separator: UInt8(ascii: "\n")).dropFirst().map { line in
      String(decoding: line.drop { $0 == UInt8(ascii: " ") }, as: UTF8.self)
    }
    return (ATTConversation.name(att.opcode.rawValue), lines.joined(separator: "; "))
  }
}

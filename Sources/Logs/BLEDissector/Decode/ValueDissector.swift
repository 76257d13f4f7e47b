package import BLEWire
import ColmiRing
package import JSONText

/// Decodes attribute values whose format is defined by the SIG, the sensor's manufacturer or the ring's
/// protocol. The result is the same as in `ringtap decode` and `ringtap ring decode`.
enum ValueDissector {
  /// Decodes a value.
  ///
  /// - Parameters:
  ///   - uuid: the attribute's type; `nil` if the log does not contain it. A ring's value is then recognized
  ///     by its checksum.
  ///   - opcode: opcode of the PDU. A value written to a ring is a command, even if the bytes also fit a
  ///     sample.
  static func said(
    _ value: Span<UInt8>, _ uuid: BluetoothUUID?, in opcode: ATTOpcode, for reader: FieldList.Reader
  ) -> Field? {
    let isSent = opcode == .writeRequest || opcode == .writeCommand
    if let ring = RingTranscript(value, of: uuid, isSent ? .hostToRing : .ringToHost) { return ring.field }
    // A fragment of a ring's message cannot be decoded alone.
    guard let uuid, RingTranscript([], of: uuid) == nil else { return nil }
    if let short = uuid.short, let fields = attribute(value, short, reader) { return said(fields) }
    var context = SensorDecoder.Context()
    context.operation = operation(of: opcode)
    let octets = value.indices.map { value[$0] }
    return SensorDecoder().fields([octets], of: .characteristic(uuid), context, for: reader).map(said)
  }

  private static func said(_ fields: FieldList) -> Field {
    Field("decoded", .object, .none, children: fields.fields)
  }

  private static func operation(of opcode: ATTOpcode) -> SensorDecoder.Operation? {
    switch opcode {
    case .writeRequest, .writeCommand, .signedWriteCommand: .write
    case .readResponse: .read
    case .handleValueNotification: .notify
    case .handleValueIndication: .indicate
    default: nil
    }
  }

  /// Decodes attributes defined by GATT and GAP.
  private static func attribute(
    _ value: Span<UInt8>, _ short: UInt16, _ reader: FieldList.Reader
  ) -> FieldList? {
    var fields = FieldList(for: reader)
    switch short {
    case 0x2901: fields.member("text", PacketText.string(value))
    case 0x2800, 0x2801:
      guard let uuid = value.uuid(at: 0, byteCount: value.count) else { return nil }
      fields.append(Field("service", .uuid(uuid)))
    case 0x2803:
      guard let declaration = try? CharacteristicDeclaration(validating: value) else { return nil }
      fields.members(of: declaration)
    case 0x2902 where value.count == 2:
      let bits = value.u16(at: 0)
      fields.member("configuration", bits, words: configuration(bits))
    case 0x2A01 where value.count == 2:
      fields.appearance(value.u16(at: 0))
    case 0x2A04 where value.count == 8: fields.preferredParameters(value)
    case 0x2A05 where value.count == 4:
      let (start, end) = (value.handle(at: 0), value.handle(at: 2))
      fields.member(
        "startHandle", start.rawValue, .words("changed"),
        words: "\(PacketText.hex(start))-\(PacketText.hex(end))")
      fields.member("endHandle", end.rawValue, .hidden)
    default: return nil
    }
    return fields
  }

  /// Returns the meaning of a Client Characteristic Configuration. Core 5.4, Vol 3, Part G, 3.3.3.3.
  private static func configuration(_ bits: UInt16) -> String {
    switch bits {
    case 0: "off"
    case 1: "notification"
    case 2: "indication"
    case 3: "notification, indication"
    default: PacketText.hex(UInt64(bits), digits: 4)
    }
  }
}

extension DecodedATT {
  /// Returns the decoded value; `nil` if the PDU has only a part of the value, or if the format is unknown.
  func said(for reader: FieldList.Reader) -> Field? {
    guard let value, offset == nil, opcode != .readBlobResponse else { return nil }
    return ValueDissector.said(value, uuid, in: opcode, for: reader)
  }
}

/// Fields of a characteristic declaration. Core 5.4, Vol 3, Part G, 3.3.1.
extension CharacteristicDeclaration: FieldSource {
  package func describe(into fields: inout FieldList) {
    fields.member("properties") { list in for name in properties.names { list.value("\(name)") } }
    fields.member("valueHandle", valueHandle.rawValue, words: PacketText.hex(valueHandle))
    fields.append(Field("valueUuid", .uuid(uuid), .words("value UUID")))
  }
}

extension FieldList {
  /// Adds the fields of Peripheral Preferred Connection Parameters. Core 5.4, Vol 3, Part C, 12.3.
  fileprivate mutating func preferredParameters(_ value: Span<UInt8>) {
    let (least, most) = (Int64(value.u16(at: 0)) * 125, Int64(value.u16(at: 2)) * 125)
    let timeout = Int(value.u16(at: 6)) * 10
    member(
      "minIntervalMs", Double(least) / 100, .words("interval"),
      words: "\(PacketText.decimal(least, places: 2)) ms to \(PacketText.decimal(most, places: 2)) ms")
    member("maxIntervalMs", Double(most) / 100, .hidden)
    member("latency", value.u16(at: 4), words: "\(value.u16(at: 4)), timeout: \(timeout) ms")
    member("timeoutMs", timeout, .hidden)
  }
}

/// The decoded value of a characteristic whose format is known.
package struct DecodedValue: Sendable {
  /// The members of the decoded value, for JSON.
  package let fields: [Field]

  /// Decodes a value that was read, written or notified.
  ///
  /// - Parameters:
  ///   - value: the whole value.
  ///   - uuid: the characteristic's type.
  ///   - operation: the operation that transferred the value.
  /// - Returns: `nil` if the format is unknown.
  package init?(_ value: Span<UInt8>, of uuid: BluetoothUUID, by operation: SensorDecoder.Operation) {
    let opcode: ATTOpcode =
      switch operation {
      case .read: .readResponse
      case .write: .writeRequest
      case .notify: .handleValueNotification
      case .indicate: .handleValueIndication
      }
    guard let field = ValueDissector.said(value, uuid, in: opcode, for: .anyone) else { return nil }
    fields = field.value == .object && field.name == "decoded" ? field.children : [field]
  }

  /// The decoded value as one line of text, without the line feed.
  package var text: String {
    var text = PacketText(isColored: false)
    text.print(fields, 0)
    let lines = String(decoding: text.octets, as: UTF8.self).split(separator: "\n").map { line in
      line.drop { $0 == " " }
    }
    // The label of a single field is omitted, because it repeats the characteristic's name.
    let shown = fields.filter { $0.label != .hidden }
    if shown.count == 1, shown[0].isScalar, lines.count == 1, let colon = lines[0].firstIndex(of: ":") {
      return String(lines[0][colon...].dropFirst(2))
    }
    return lines.joined(separator: ", ")
  }
}

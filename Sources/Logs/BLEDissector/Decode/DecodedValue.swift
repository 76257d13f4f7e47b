package import BLEWire
package import JSONText

/// The decoded value of a characteristic whose format is known.
package struct DecodedValue: Sendable {
  /// The members of the decoded value, for JSON.
  package let fields: [Field]

  /// Decodes a value that was read, written or notified.
  ///
  /// - Parameters:
  ///   - value: the whole value.
  ///   - uuid: the characteristic's type.
  ///   - operation: how the value was transferred.
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

  /// One line, without the line feed.
  package var text: String {
    var text = PacketText(isColored: false)
    text.print(fields, 0)
    let lines = String(decoding: text.octets, as: UTF8.self).split(separator: "\n").map { line in
      line.drop { $0 == " " }
    }
    // The label of the only field repeats the characteristic's name.
    let shown = fields.filter { $0.label != .hidden }
    if shown.count == 1, shown[0].isScalar, lines.count == 1, let colon = lines[0].firstIndex(of: ":") {
      return String(lines[0][colon...].dropFirst(2))
    }
    return lines.joined(separator: ", ")
  }
}

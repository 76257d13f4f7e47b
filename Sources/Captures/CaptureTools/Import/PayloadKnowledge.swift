import BLEDissector
package import BLEWire
package import JSONText
package import Recording

/// Attributes of an imported capture with types that were inferred only from the format of their values.
package struct PayloadKnowledge: Sendable {
  /// Attributes, in order of their handles.
  package let attributes: [(handle: AttributeHandle, uuid: BluetoothUUID)]

  package init(_ attributes: some Sequence<(handle: AttributeHandle, uuid: BluetoothUUID)>) {
    self.attributes = attributes.sorted { $0.handle < $1.handle }
  }

  package init(_ origin: ImportOrigin?) {
    let known = (origin?.attributes ?? []).filter { $0.knownBy == AttributeSource.payload.rawValue }
    self.init(known.map { ($0.handle, $0.uuid) })
  }

  /// Reads the attributes of a capture.
  ///
  /// - Parameter session: `session.json` of the capture.
  package init(_ session: JSONDocument?) {
    let known = (session?["importedFrom"]?["attributes"]?.array ?? []).filter {
      $0["knownBy"]?.text == AttributeSource.payload.rawValue
    }
    self.init(
      known.compactMap { attribute in
        guard let handle = attribute["handle"]?.integer(UInt16.self),
          let uuid = attribute["uuid"]?.text.flatMap({ BluetoothUUID($0) })
        else { return nil }
        return (AttributeHandle(handle), uuid)
      })
  }

  /// Description for the user; `nil` if there are no such attributes.
  package var text: String? {
    guard !attributes.isEmpty else { return nil }
    let each = attributes.map { handle, uuid in
      "0x\(hexadecimal(UInt8(handle.rawValue >> 8)))\(hexadecimal(UInt8(handle.rawValue & 0xFF))) as "
        + (UUIDNames.name(of: uuid).map { "\($0) (\(uuid.short.map(Self.digits) ?? "\(uuid)"))" } ?? "\(uuid)")
    }
    return "known by payload only: " + each.joined(separator: ", ")
      + "; to name the attributes instead, use `ringtap import --attributes FILE`"
  }

  private static func digits(_ uuid: UInt16) -> String {
    hexadecimal(UInt8(uuid >> 8)) + hexadecimal(UInt8(uuid & 0xFF))
  }

  func encode(into line: inout JSONLine) {
    guard !attributes.isEmpty else { return }
    line.member(
      "knownByPayload",
      array: { line in
        for (handle, uuid) in attributes {
          line.object { line in
            line.member("handle", handle.rawValue)
            line.member("uuid", uuid.description)
          }
        }
      })
  }
}

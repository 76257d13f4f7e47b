package import BLEWire
import JSONText

/// The member `importedFrom` of `session.json`: the packet log that a capture was imported from.
package struct ImportOrigin: Hashable, Sendable {
  /// An attribute whose values were imported, and how it was identified.
  package struct Attribute: Hashable, Sendable {
    package var handle: AttributeHandle
    package var uuid: BluetoothUUID
    /// How the attribute was identified: `file`, `discovery`, `knownDevice` or `payload`.
    package var knownBy: String

    package init(handle: AttributeHandle, uuid: BluetoothUUID, knownBy: String) {
      self.handle = handle
      self.uuid = uuid
      self.knownBy = knownBy
    }
  }

  /// File name of the log.
  package var log: String
  package var attributes: [Attribute] = []
  /// Numbers of a ring's messages: by kind, or by command if the kind is unknown.
  package var messages: [(name: String, count: Int)] {
    counts.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
  }
  package var counts: [String: Int] = [:]

  package init(log: String) { self.log = log }

  func encode(into line: inout JSONLine) {
    line.member("importedFrom") { line in
      line.member("log", log)
      line.member(
        "attributes",
        array: { line in
          for attribute in attributes {
            line.object { line in
              line.member("handle", attribute.handle.rawValue)
              line.member("uuid", attribute.uuid.description)
              line.member("knownBy", attribute.knownBy)
            }
          }
        })
      guard !counts.isEmpty else { return }
      line.member("messages") { line in for (name, count) in messages { line.member(name, count) } }
    }
  }
}

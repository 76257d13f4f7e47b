import BLEDissector
import BLEStack
import BLEWire
import CommandKit
import JSONText

/// Prints an attribute tree, one line per attribute, with the name of its type if it is known.
struct GATTTree {
  var json = false

  func show(_ database: GATTDatabase) throws(Console.WriteError) {
    for service in database.services {
      try show(service)
      for include in service.includes { try show(include) }
      for characteristic in service.characteristics { try show(characteristic) }
    }
  }

  private func show(_ service: GATTDatabase.Service) throws(Console.WriteError) {
    let isPrimary = service.kind == .primary
    guard json else {
      let kind = isPrimary ? "service" : "secondary service"
      try Console.print(
        "\(service.range.start.rawValue.handleText)–\(service.range.end.rawValue.handleText)  "
          + "\(kind) \(service.uuid.shortText)\(name(service.uuid))")
      return
    }
    try Console.json { line in
      line.member("type", "service")
      line.member("handle", service.range.start.rawValue)
      line.member("endHandle", service.range.end.rawValue)
      line.member("uuid", service.uuid.description)
      line.member("name", known: service.uuid)
      line.member("primary", isPrimary)
    }
  }

  private func show(_ include: GATTDatabase.Include) throws(Console.WriteError) {
    guard json else {
      try Console.print(
        "  \(include.handle.rawValue.handleText)  include \(include.uuid.shortText) "
          + "(\(include.range.start.rawValue.handleText)–\(include.range.end.rawValue.handleText))\(name(include.uuid))"
      )
      return
    }
    try Console.json { line in
      line.member("type", "include")
      line.member("handle", include.handle.rawValue)
      line.member("includedHandle", include.range.start.rawValue)
      line.member("includedEndHandle", include.range.end.rawValue)
      line.member("uuid", include.uuid.description)
      line.member("name", known: include.uuid)
    }
  }

  private func show(_ characteristic: GATTDatabase.Characteristic) throws(Console.WriteError) {
    if json {
      try Console.json { line in
        line.member("type", "characteristic")
        line.member("handle", characteristic.handle.rawValue)
        line.member("valueHandle", characteristic.valueHandle.rawValue)
        line.member(
          "properties",
          array: { line in
            for name in characteristic.properties.names { line.value(name) }
          })
        line.member("uuid", characteristic.uuid.description)
        line.member("name", known: characteristic.uuid)
      }
    } else {
      try Console.print(
        "  \(characteristic.handle.rawValue.handleText)  characteristic \(characteristic.uuid.shortText)  "
          + "value \(characteristic.valueHandle.rawValue.handleText)  "
          + "[\(characteristic.properties.names.joined(separator: ", "))]\(name(characteristic.uuid))")
    }
    for descriptor in characteristic.descriptors { try show(descriptor) }
  }

  private func show(_ descriptor: GATTDatabase.Descriptor) throws(Console.WriteError) {
    guard json else {
      try Console.print(
        "    \(descriptor.handle.rawValue.handleText)  descriptor \(descriptor.uuid.shortText)\(name(descriptor.uuid))"
      )
      return
    }
    try Console.json { line in
      line.member("type", "descriptor")
      line.member("handle", descriptor.handle.rawValue)
      line.member("uuid", descriptor.uuid.description)
      line.member("name", known: descriptor.uuid)
    }
  }

  /// Returns two spaces and the name, such as ` Heart Rate`; empty if the name is unknown.
  private func name(_ uuid: BluetoothUUID) -> String { UUIDNames.name(of: uuid).map { "  \($0)" } ?? "" }
}

extension JSONLine {
  fileprivate mutating func member(_ name: String, known uuid: BluetoothUUID) {
    if let text = UUIDNames.name(of: uuid) { member(name, text) }
  }
}

import BLEPeripheral
import BLEStack
import BLEWire
import CommandKit
import JSONText

/// The output of `serve`, as text or as JSON lines.
struct ServeText: Sendable {
  let isJSON: Bool

  /// Formats a passkey as six digits.
  static func passkey(_ number: UInt32) -> String {
    let digits = String(number)
    return String(repeating: "0", count: max(0, 6 - digits.count)) + digits
  }

  /// Returns the reason for a disconnection, as written in JSON.
  private static func reason(_ end: BearerEnd) -> String {
    switch end {
    case .closedLocally: "closedLocally"
    case .linkLost(.silence): "silence"
    case .linkLost(.closedByPeer): "closedByPeer"
    case .linkLost(.controllerReset): "controllerReset"
    case .linkLost(.unknown): "unknown"
    case .transactionTimeout: "transactionTimeout"
    case .encryptionLost: "encryptionLost"
    case .silent: "silent"
    case .answersNotTaken: "answersNotTaken"
    }
  }

  func ready(_ address: DeviceAddress, _ adapter: String, _ name: String) throws(Console.WriteError) {
    guard isJSON else { return try Console.print("ready \(adapter) \(address) \(name)") }
    try Console.json { line in
      line.member("event", "ready")
      line.member("adapter", adapter)
      line.members(of: address)
      line.member("name", name)
    }
  }

  func show(
    _ event: GATTServerEvent, _ attributes: [GATTServerDatabase.Attribute]
  ) throws(Console.WriteError) {
    switch event {
    case .connected(let central):
      try tell("connected", central) { _ in }
    case .disconnected(let central, let end):
      try tell("disconnected", central, Self.reason(end)) { $0.member("reason", Self.reason(end)) }
    case .written(let central, let handle, let value):
      let hex = value.map { hexadecimal($0) }.joined()
      try tell("written", central, "\(handle.rawValue.handleText) \(hex)") { line in
        line.members(of: handle, attributes)
        line.member("value", hex)
      }
    case .subscribed(let central, let handle, let pushes):
      let words = [(ServerPush.notification, "notifications"), (.indication, "indications")]
        .filter { pushes.contains($0.0) }.map(\.1)
      let text = words.isEmpty ? "nothing" : words.joined(separator: ", ")
      try tell("subscribed", central, "\(handle.rawValue.handleText) \(text)") { line in
        line.members(of: handle, attributes)
        line.member("notifications", pushes.contains(.notification))
        line.member("indications", pushes.contains(.indication))
      }
    }
  }

  func end(_ counts: GATTServerStatistics) throws(Console.WriteError) {
    guard isJSON else {
      let wrongs = Self.wrongs(counts).filter { $0.1 > 0 }.map { ", \($0.1) \($0.0)" }.joined()
      return try Console.print(
        "end \(counts.centrals) connected, \(counts.writes) written, \(counts.notifications) notified, "
          + "\(counts.indications) indicated\(wrongs)")
    }
    try Console.json { line in
      line.member("event", "end")
      line.member("connected", counts.centrals)
      line.member("written", counts.writes)
      line.member("notified", counts.notifications)
      line.member("indicated", counts.indications)
      for (name, count) in Self.wrongs(counts) { line.member(name, count) }
    }
  }

  /// Returns the counts of centrals' errors, with the names in `GATTServerStatistics`.
  private static func wrongs(_ counts: GATTServerStatistics) -> [(String, Int)] {
    [
      ("unconfirmed", counts.unconfirmed), ("brokenWrites", counts.brokenWrites), ("floods", counts.floods),
      ("refusals", counts.refusals), ("failedPairings", counts.failedPairings), ("faults", counts.faults),
    ]
  }

  private func tell(
    _ event: String, _ central: Central, _ text: String = "", _ members: (inout JSONLine) -> Void
  ) throws(Console.WriteError) {
    guard isJSON else {
      return try Console.print(
        "\(event) \(central.number) \(central.address)" + (text.isEmpty ? "" : " \(text)"))
    }
    try Console.json { line in
      line.member("event", event)
      line.member("central", central.number)
      line.members(of: central.address)
      members(&line)
    }
  }
}

extension JSONLine {
  mutating func members(of address: DeviceAddress) {
    member("address", address.description)
    member("addressType", address.type.name.description)
  }

  fileprivate mutating func members(of handle: AttributeHandle, _ attributes: [GATTServerDatabase.Attribute])
  {
    member("handle", Int(handle.rawValue))
    if let attribute = attributes.first(where: { $0.handle == handle }) {
      member("uuid", attribute.type.description)
    }
  }
}

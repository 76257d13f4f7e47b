import BLEDissector
import BLEPacketLog
import BLEWire
import Foundation
import LogKit
import TestKit
import Testing

/// A tshark field, the keys that hold it in `log show --json`, and the unit that tshark leaves raw.
private struct Counterpart {
  let field: String
  let keys: Set<String>
  /// Factor from tshark's value to ours.
  var factor = 1.0

  static let all = [
    Counterpart(field: "bthci_cmd.le_con_interval_min", keys: ["minConnectionIntervalMs"], factor: 1.25),
    Counterpart(field: "bthci_cmd.le_con_interval_max", keys: ["maxConnectionIntervalMs"], factor: 1.25),
    Counterpart(field: "bthci_cmd.le_con_latency", keys: ["connectionLatency"]),
    Counterpart(field: "bthci_cmd.le_supv_timeout", keys: ["supervisionTimeoutMs"], factor: 10),
    Counterpart(field: "bthci_cmd.le_scan_interval", keys: ["intervalMs", "scanIntervalMs"], factor: 0.625),
    Counterpart(field: "bthci_cmd.le_scan_window", keys: ["windowMs", "scanWindowMs"], factor: 0.625),
    Counterpart(field: "bthci_cmd.le_own_address_type", keys: ["ownAddressType"]),
    Counterpart(field: "bthci_cmd.le_peer_address_type", keys: ["peerAddressType"]),
    Counterpart(field: "bthci_cmd.le_initiator_filter_policy", keys: ["filterPolicy"]),
    Counterpart(field: "bthci_cmd.le_filter_duplicates", keys: ["filterDuplicates"]),
    Counterpart(field: "bthci_evt.le_con_interval", keys: ["connectionIntervalMs"], factor: 1.25),
    Counterpart(field: "bthci_evt.le_con_latency", keys: ["connectionLatency"]),
    Counterpart(field: "bthci_evt.le_supv_timeout", keys: ["supervisionTimeoutMs"], factor: 10),
    Counterpart(field: "bthci_evt.le_features", keys: ["features"]),
    Counterpart(field: "bthci_evt.num_command_packets", keys: ["numHciCommandPackets"]),
    Counterpart(field: "bthci_evt.num_compl_packets", keys: ["count"]),
    Counterpart(field: "bthci_evt.role", keys: ["role"]),
    Counterpart(field: "bthci_evt.primary_phy", keys: ["primaryPhy"]),
    Counterpart(field: "bthci_evt.le_local_rpa", keys: ["localResolvablePrivateAddress"]),
    Counterpart(field: "bthci_evt.rssi", keys: ["rssi"]),
    Counterpart(field: "bthci_evt.tx_power", keys: ["txPowerDbm"]),
    Counterpart(field: "btsmp.max_enc_key_size", keys: ["maxEncryptionKeySize"]),
    Counterpart(field: "btsmp.io_capability", keys: ["ioCapability"]),
    Counterpart(field: "hci_mon.bd_addr", keys: ["address"]),
    Counterpart(field: "hci_mon.command", keys: ["program"]),
    Counterpart(field: "hci_mon.system_note", keys: ["text"]),
    Counterpart(field: "hci_mon.manufacturer", keys: ["manufacturer"]),
    Counterpart(field: "hci_mon.adapter_name", keys: ["name"]),
  ]
}

/// Each parameter in `log show --json` has the value that tshark finds.
@Suite @MainActor struct TsharkParameterTests {
  /// Values in order, by packet and field.
  private func tshark(_ log: [UInt8]) throws -> [[String: [String]]] {
    let fields = Counterpart.all.map(\.field)
    let tool = ExternalTool("tshark")
    let arguments =
      ["-T", "fields", "-E", "separator=|", "-E", "occurrence=a", "-E", "aggregator=;"]
      + fields.flatMap { ["-e", $0] }
    let text = try tool.output(arguments + ["-r"], of: log)
    return text.split(separator: "\n", omittingEmptySubsequences: false).dropLast().map { line in
      let values = line.split(separator: "|", omittingEmptySubsequences: false).map {
        $0.split(separator: ";").map(String.init)
      }
      return Dictionary(uniqueKeysWithValues: zip(fields, values).filter { !$0.1.isEmpty })
    }
  }

  private func lines(_ log: [UInt8]) throws -> [Int: [String: Any]] {
    var view = PacketView(PacketFilter(), PacketPrinter(style: .json), context: 0)
    var reader = PacketLogReader()
    var decoder = PacketDecoder()
    try reader.read(log.span) { record in
      if record.type == nil { view.take(note: record) } else { decoder.decode(record) { view.take($0) } }
    }
    var lines: [Int: [String: Any]] = [:]
    for text in view.octets.split(separator: UInt8(ascii: "\n")) {
      let line = try #require(try JSONSerialization.jsonObject(with: Data(text)) as? [String: Any])
      lines[try #require(line["index"] as? Int)] = line
    }
    return lines
  }

  /// All values of `keys`, in the order of the arrays that contain them.
  private func values(_ keys: Set<String>, in value: Any) -> [Any] {
    switch value {
    case let object as [String: Any]:
      object.flatMap { keys.contains($0.key) ? [$0.value] : values(keys, in: $0.value) }
    case let array as [Any]: array.flatMap { values(keys, in: $0) }
    default: []
    }
  }

  private func isSame(_ our: Any, _ their: String, _ factor: Double) -> Bool {
    if let number = our as? Double {
      let digits = their.hasPrefix("0x") ? their.dropFirst(2) : their[...]
      guard let raw = Int(digits, radix: their.hasPrefix("0x") ? 16 : 10) else { return false }
      return number == Double(raw) * factor
    }
    // 127 means "not available".
    if our is NSNull { return their == "127" }
    guard let text = our as? String else { return false }
    return text.lowercased() == their.lowercased() || "0x\(text)" == their
  }

  /// - Returns: number of values that were compared.
  private func compare(_ log: [UInt8]) throws -> Int {
    let ours = try lines(log)
    var count = 0
    for (offset, their) in try tshark(log).enumerated() {
      for counterpart in Counterpart.all {
        guard let theirValues = their[counterpart.field] else { continue }
        let line = try #require(ours[offset + 1], "packet \(offset + 1) is not shown")
        // A note's members are in the line itself.
        let scope = counterpart.field.hasPrefix("hci_mon") ? line : inner(line)
        let ourValues = values(counterpart.keys, in: scope)
        #expect(ourValues.count == theirValues.count, "\(counterpart.field) of packet \(offset + 1)")
        for (our, their) in zip(ourValues, theirValues) {
          #expect(
            isSame(our, their, counterpart.factor),
            "\(counterpart.field) of packet \(offset + 1): \(our), tshark \(their)")
          count += 1
        }
      }
    }
    return count
  }

  private func inner(_ line: [String: Any]) -> [String: Any] {
    line.filter { ["parameters", "l2cap", "smp"].contains($0.key) }
  }

  @Test(
    .enabled(if: Place.treadmill != nil, Place.noShared))
  func agreesOnAPhonesLog() throws {
    let file = URL(filePath: try #require(Place.treadmill))
    let count = try compare([UInt8](Data(contentsOf: file)))
    #expect(count == 879)
  }

  @Test func agreesOnOurCaptures() throws {
    var count = 0
    for file in Logs.own { count += try compare([UInt8](Data(contentsOf: file))) }
    #expect(count > 100)
  }

  /// Bytes from Core 5.4, Vol 3, Part H, 3.5.1.
  @Test func agreesOnPairing() throws {
    let packet = LoggedPacket(
      type: .acl, direction: .controllerToHost,
      octets: octetsOf("4020 0b00 0700 0600 01 04 00 2d 10 0f 0f"))
    #expect(try compare(log([packet])) == 2)
  }
}

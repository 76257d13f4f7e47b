import BLEDissector
import BLEWire
import ColmiRing

/// Maps the names of attribute types in `UUIDNames` to UUIDs.
enum AttributeNames {
  /// Kind of an attribute. One name may belong to UUIDs of different kinds.
  enum Kind: String {
    case service, characteristic, descriptor

    /// 16-bit UUIDs of this kind. Bluetooth Assigned Numbers, 3.4 to 3.8.
    fileprivate var range: ClosedRange<UInt16> {
      switch self {
      case .service: 0x1800...0x18FF
      case .characteristic: 0x2A00...0x2CFF
      case .descriptor: 0x2900...0x29FF
      }
    }

    fileprivate var own: [BluetoothUUID] {
      switch self {
      case .service: [RingUUID.commandService, RingUUID.bigDataService]
      case .characteristic:
        [RingUUID.commandWrite, RingUUID.commandNotify, RingUUID.bigDataWrite, RingUUID.bigDataNotify]
      case .descriptor: []
      }
    }

    var example: String {
      switch self {
      case .service: "\"Heart Rate\", 180d"
      case .characteristic: "\"Battery Level\", 2a19"
      case .descriptor: "\"Characteristic User Description\", 2901"
      }
    }
  }

  /// Further names: short names, and names from the current Assigned Numbers if `UUIDNames` has BlueZ's name.
  private static let others: [(name: String, uuid: UInt16)] = [
    ("GAP", 0x1800), ("GATT", 0x1801), ("Characteristic Presentation Format", 0x2904),
    ("Characteristic Aggregate Format", 0x2905), ("CCCD", 0x2902), ("User Description", 0x2901),
  ]

  private static let services = table(.service)
  private static let characteristics = table(.characteristic)
  private static let descriptors = table(.descriptor)

  private static func table(_ kind: Kind) -> [String: [BluetoothUUID]] {
    var table: [String: [BluetoothUUID]] = [:]
    for uuid in kind.range.map({ BluetoothUUID($0) }) + kind.own {
      guard let name = UUIDNames.name(of: uuid) else { continue }
      table[key(name), default: []].append(uuid)
    }
    for (name, uuid) in others where kind.range.contains(uuid) && table[key(name)] == nil {
      table[key(name)] = [BluetoothUUID(uuid)]
    }
    return table
  }

  private static func uuids(_ kind: Kind) -> [String: [BluetoothUUID]] {
    switch kind {
    case .service: services
    case .characteristic: characteristics
    case .descriptor: descriptors
    }
  }

  /// Returns a name for comparison: without case, punctuation and a final word "Service" or "Profile",
  /// because only some of the SIG's lists have this word.
  private static func key(_ name: String) -> String {
    var words = name.lowercased().split { !$0.isLetter && !$0.isNumber }
    if words.count > 1, words.last == "service" || words.last == "profile" { words.removeLast() }
    return words.joined(separator: " ")
  }

  /// Returns the UUIDs with a name; empty if the name is unknown.
  static func uuids(named name: String, _ kind: Kind) -> [BluetoothUUID] { uuids(kind)[key(name)] ?? [] }

  /// Returns a name for which `uuids(named:_:)` returns only this UUID.
  static func name(of uuid: BluetoothUUID, _ kind: Kind) -> String? {
    guard let name = UUIDNames.name(of: uuid), uuids(named: name, kind) == [uuid] else { return nil }
    return name
  }

  /// Returns the most similar name; `nil` if every name differs by more than a third of its letters.
  static func nearest(to name: String, _ kind: Kind) -> (name: String, uuid: BluetoothUUID)? {
    let key = key(name)
    let near = uuids(kind).map { (uuids: $0.value, steps: CommandGuess.steps(from: key, to: $0.key)) }
      .filter { $0.steps <= max(1, key.count / 3) }
      .min { ($0.steps, $0.uuids[0].description) < ($1.steps, $1.uuids[0].description) }
    guard let uuid = near?.uuids[0], let name = UUIDNames.name(of: uuid) else { return nil }
    return (name, uuid)
  }
}

public import BLEWire

/// An advertiser: the merged content of its advertisements and scan responses.
public struct Advertiser: Hashable, Sendable {
  /// On-air address of the latest report.
  public internal(set) var address: DeviceAddress
  /// Identity behind a private address, if a bond resolves it.
  public internal(set) var identity: DeviceAddress?
  /// Signal strength of the latest report, in dBm.
  public var rssi: Int8?
  public var name: String?
  /// Whether `name` is the complete name, not a shortened name.
  public var isNameComplete = false
  /// Advertised service UUIDs in the order seen.
  public var services: [BluetoothUUID] = []
  /// Company identifier and data of manufacturer-specific structures.
  public var manufacturerData: [UInt16: [UInt8]] = [:]
  /// Service-data structures.
  public var serviceData: [BluetoothUUID: [UInt8]] = [:]
  public var flags: UInt8?
  /// Transmit power in dBm.
  public var txPower: Int8?
  public var appearance: UInt16?
  public var isConnectable = false
  public var latest = ReceiveTime(nanoseconds: 0)

  /// Maximum number of service UUIDs. The longest legacy advertisement and its scan response contain 26.
  public static let serviceLimit = Limit(
    32, "service UUIDs of one advertiser", by: .air, whenFull: "further ones are left out",
    counted: "`leftOut` of a scan")
  /// Maximum number of manufacturer and service data structures. Real devices send one or two.
  public static let dataLimit = Limit(
    16, "company identifiers and service-data UUIDs of one advertiser", by: .air,
    whenFull: "further ones are left out", counted: "`leftOut` of a scan")

  public init(address: DeviceAddress) { self.address = address }

  /// Changes that one report made.
  struct Change {
    /// Whether the report changed anything except signal strength and time.
    var isNews = false
    /// Number of UUIDs and structures that were dropped because of the limits.
    var leftOut = 0
    /// The first malformed structure. The structures before it are kept; padding after a name is a common
    /// cause.
    var error: WireError?

    mutating func set<Value: Equatable>(_ place: inout Value, _ value: Value) {
      guard place != value else { return }
      place = value
      isNews = true
    }
  }

  /// Merges one report.
  ///
  /// - Returns: Whether the report changed anything except signal strength and time.
  /// - Throws: if an AD structure is malformed. The preceding structures are kept.
  public mutating func merge(
    _ report: borrowing AdvertisingReport, at time: ReceiveTime
  ) throws(WireError) -> Bool {
    let change = take(report, at: time)
    if let error = change.error { throw error }
    return change.isNews
  }

  mutating func take(_ report: borrowing AdvertisingReport, at time: ReceiveTime) -> Change {
    var change = Change()
    (rssi, latest) = (report.rssi, time)
    if !report.properties.isScanResponse { change.set(&isConnectable, report.properties.isConnectable) }
    if let power = report.txPower { change.set(&txPower, power) }
    do throws(WireError) {
      try AdvertisingData(report.data).forEach { type, value in take(type, value, &change) }
    } catch { change.error = error }
    return change
  }

  private mutating func take(_ type: AdvertisingDataType, _ value: Span<UInt8>, _ change: inout Change) {
    if let size = type.serviceUUIDByteCount {
      for index in 0..<value.count / size {
        if let uuid = value.uuid(at: index * size, byteCount: size) { take(service: uuid, &change) }
      }
    } else if let size = type.serviceDataUUIDByteCount, value.count >= size {
      if let uuid = value.uuid(at: 0, byteCount: size) {
        Self.take(value.extracting(size...), of: uuid, in: &serviceData, isFull: isFull, &change)
      }
    } else {
      takeScalar(type, value, &change)
    }
  }

  private mutating func take(service uuid: BluetoothUUID, _ change: inout Change) {
    if services.contains(uuid) { return }
    guard services.count < Self.serviceLimit.count else { return change.leftOut += 1 }
    services.append(uuid)
    change.isNews = true
  }

  /// Stores a value if it has changed. A long scan receives the same data many times.
  private static func take<Key: Hashable>(
    _ value: Span<UInt8>, of key: Key, in table: inout [Key: [UInt8]], isFull: Bool, _ change: inout Change
  ) {
    if let known = table[key] {
      if known.count == value.count, value.indices.allSatisfy({ known[$0] == value[$0] }) { return }
    } else if isFull {
      return change.leftOut += 1
    }
    table[key] = [UInt8](encoding: value.count) { $0.append(value) }
    change.isNews = true
  }

  private var isFull: Bool { manufacturerData.count + serviceData.count >= Self.dataLimit.count }

  private mutating func takeScalar(
    _ type: AdvertisingDataType, _ value: Span<UInt8>, _ change: inout Change
  ) {
    switch type {
    case .completeLocalName:
      change.set(&name, Self.text(value))
      change.set(&isNameComplete, true)
    case .shortenedLocalName where !isNameComplete: change.set(&name, Self.text(value))
    case .manufacturerSpecificData where value.count >= 2:
      Self.take(
        value.extracting(2...), of: value.u16(at: 0), in: &manufacturerData, isFull: isFull, &change)
    case .flags where value.count >= 1: change.set(&flags, value[0])
    case .txPowerLevel where value.count >= 1: change.set(&txPower, Int8(bitPattern: value[0]))
    case .appearance where value.count >= 2: change.set(&appearance, value.u16(at: 0))
    default: break
    }
  }

  /// Decodes a name from UTF-8. Some firmware pads names with zeros.
  fileprivate static func text(_ value: Span<UInt8>) -> String {
    var octets = [UInt8](encoding: value.count) { $0.append(value) }
    while octets.last == 0 { octets.removeLast() }
    return String(decoding: octets, as: UTF8.self)
  }
}

extension AdvertisingReport {
  /// Returns the name in this report alone. If the data is malformed, uses only the structures before the
  /// fault.
  package func name() -> (text: String, isComplete: Bool)? {
    var name: (text: String, isComplete: Bool)?
    try? AdvertisingData(data).forEach { type, value in
      switch type {
      case .completeLocalName: name = (Advertiser.text(value), true)
      case .shortenedLocalName where name?.isComplete != true: name = (Advertiser.text(value), false)
      default: break
      }
    }
    return name
  }
}

public import BLECore
public import BLEWire

/// What is known of an advertiser: the merged content of its advertisements and scan responses.
public struct Advertiser: Hashable, Sendable {
  /// On air, of the latest report.
  public internal(set) var address: DeviceAddress
  /// Who is behind a private address, where a bond tells.
  public internal(set) var identity: DeviceAddress?
  /// dBm, of the latest report.
  public var rssi: Int8?
  public var name: String?
  /// Whether `name` is the complete name, not a shortened one.
  public var isNameComplete = false
  /// Advertised service UUIDs in the order seen.
  public var services: [BluetoothUUID] = []
  /// Company identifier and data of manufacturer-specific structures.
  public var manufacturerData: [UInt16: [UInt8]] = [:]
  /// Service-data structures.
  public var serviceData: [BluetoothUUID: [UInt8]] = [:]
  public var flags: UInt8?
  /// dBm.
  public var txPower: Int8?
  public var appearance: UInt16?
  public var isConnectable = false
  public var latest = ReceiveTime(nanoseconds: 0)

  public init(address: DeviceAddress) { self.address = address }

  /// Takes in one report.
  ///
  /// - Returns: whether anything but signal strength and time is new.
  /// - Throws: for AD structures that break the format; those before are kept.
  public mutating func merge(
    _ report: borrowing AdvertisingReport, at time: ReceiveTime
  ) throws(WireError) -> Bool {
    let before = self
    defer {
      rssi = report.rssi
      latest = time
    }
    if !report.properties.isScanResponse { isConnectable = report.properties.isConnectable }
    if let power = report.txPower { txPower = power }
    try AdvertisingData(report.data).forEach { type, value in merge(type, value) }
    return self != before
  }

  private mutating func merge(_ type: AdvertisingDataType, _ value: Span<UInt8>) {
    if let size = type.serviceUUIDByteCount {
      for index in 0..<value.count / size {
        if let uuid = value.uuid(at: index * size, byteCount: size), !services.contains(uuid) {
          services.append(uuid)
        }
      }
    } else if let size = type.serviceDataUUIDByteCount, value.count >= size {
      if let uuid = value.uuid(at: 0, byteCount: size) { serviceData[uuid] = copy(value, from: size) }
    } else {
      mergeScalar(type, value)
    }
  }

  private mutating func mergeScalar(_ type: AdvertisingDataType, _ value: Span<UInt8>) {
    switch type {
    case .completeLocalName:
      name = Self.text(value)
      isNameComplete = true
    case .shortenedLocalName where !isNameComplete: name = Self.text(value)
    case .manufacturerSpecificData where value.count >= 2:
      manufacturerData[value.u16(at: 0)] = copy(value, from: 2)
    case .flags where value.count >= 1: flags = value[0]
    case .txPowerLevel where value.count >= 1: txPower = Int8(bitPattern: value[0])
    case .appearance where value.count >= 2: appearance = value.u16(at: 0)
    default: break
    }
  }

  /// Names are UTF-8; some firmware pads them with zeros.
  private static func text(_ value: Span<UInt8>) -> String {
    var octets = [UInt8](encoding: value.count) { $0.append(value) }
    while octets.last == 0 { octets.removeLast() }
    return String(decoding: octets, as: UTF8.self)
  }

  private func copy(_ value: Span<UInt8>, from offset: Int) -> [UInt8] {
    [UInt8](encoding: value.count) { $0.append(value.extracting(offset...)) }
  }
}

/// A scan that collects advertisers, with the radio switched off again whatever happens.
public struct Scanner: Sendable {
  /// What a handler wants after an advertiser.
  public enum Verdict: Sendable {
    case goOn, stop
  }

  public var kind: ScanKind
  public var duplicates: DuplicateFilter
  public var timing: ScanTiming

  public init(
    kind: ScanKind = .active, duplicates: DuplicateFilter = .reportOnce, timing: ScanTiming = .continuous
  ) {
    self.kind = kind
    self.duplicates = duplicates
    self.timing = timing
  }

  /// Scans until `handler` says stop, `duration` is over, the task is cancelled, or the adapter is lost; then
  /// switches scanning off and waits for the controller to confirm it.
  ///
  /// `handler` gets an advertiser when it is first seen and when more of it is known (its name from a scan
  /// response, say); with `duplicates: .reportAll` on every report.
  ///
  /// - Parameters:
  ///   - adapter: what scans.
  ///   - duration: `nil` for no end.
  ///   - handler: runs on the receive thread; must not block.
  /// - Returns: reports and structures that broke the format.
  public func run(
    on adapter: any Adapter, for duration: Duration?,
    _ handler: @escaping @Sendable (Advertiser) -> Verdict
  ) async throws(HostError) -> Int {
    let collector = Collector(
      reportsAll: duplicates == .reportAll, resolver: await adapter.addressResolver, handler)
    try await adapter.startScan(kind, timing: timing, duplicates: duplicates) { report, time in
      collector.take(report, time)
    }
    // Without the adapter nothing more will come; to switch it off fails then, and says why.
    await adapter.onLost { collector.finish() }
    await collector.wait(for: duration)
    // A cancelled task still stops the radio: nothing below looks at cancellation.
    try await adapter.stopScan()
    return collector.malformed + (await adapter.malformed)
  }
}

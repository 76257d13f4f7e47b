public import BLEWire

/// What a device of ours tells whoever scans: its name, its services, and what else is put into it.
///
/// ```swift
/// DeviceAdvertisement(name: "Strap", services: [.heartRate])
/// ```
///
/// The name goes into the scan response where the data have no room for it, and is shortened where that has none either.
/// Core 5.4, Vol 3, Part C, 11 and 13.1.
public struct DeviceAdvertisement: Hashable, Sendable {
  /// Which PDUs are on air.
  public typealias Form = LESetExtendedAdvertisingParameters.Form

  public var name: String
  /// Those that a scanner is to know the device by; as many as there is room for.
  public var services: [BluetoothUUID]
  /// A value of Bluetooth Assigned Numbers, 2.6; `nil`: not told.
  public var appearance: UInt16?
  /// The company's number, the least significant octet first, and its data; empty for none.
  public var manufacturerData: [UInt8]
  public var interval: AdvertisingInterval
  /// `extended` wants a controller that has it, and is not heard by scanners that do not.
  public var form: Form
  /// Under resolvable private addresses, a new one every 15 minutes: only those that are bonded know whose they are. It needs
  /// security (`HostAdapter.secure`), and beside the kernel's host that this hides.
  public var isPrivate = false

  public init(
    name: String, services: [BluetoothUUID] = [], appearance: UInt16? = nil, manufacturerData: [UInt8] = [],
    interval: AdvertisingInterval = .fast, form: Form = .legacy
  ) {
    self.name = name
    self.services = services
    self.appearance = appearance
    self.manufacturerData = manufacturerData
    self.interval = interval
    self.form = form
  }

  /// AD structures as they lie on air.
  private struct Encoded: Hashable {
    var data, scanResponse: [UInt8]
  }
  /// Advertised in the place of the fields.
  private var encoded: Encoded?

  /// An advertisement that somebody else has put together, in the legacy form.
  package init(data: [UInt8], scanResponse: [UInt8], interval: AdvertisingInterval) {
    self.init(name: "", interval: interval)
    encoded = Encoded(data: data, scanResponse: scanResponse)
  }

  /// AD structures of the advertisement.
  public var data: [UInt8] { structures.data }
  /// AD structures of the answer to a scan request; empty where there is nothing left to say.
  public var scanResponse: [UInt8] { structures.scanResponse }

  private var structures: (data: [UInt8], scanResponse: [UInt8]) {
    if let encoded { return (encoded.data, encoded.scanResponse) }
    var data = ADStructures(
      limit: form == .legacy
        ? LESetAdvertisingData.maximumByteCount : LESetExtendedAdvertisingData.maximumByteCount)
    // LE General Discoverable Mode, BR/EDR Not Supported. Core Specification Supplement, Part A, 1.3.
    data.add(.flags, [0x06])
    data.add(services.filter { $0.short != nil }, .completeServices16, .incompleteServices16)
    data.add(services.filter { $0.short == nil }, .completeServices128, .incompleteServices128)
    if let appearance { data.add(.appearance, [UInt8(appearance & 0xFF), UInt8(appearance >> 8)]) }
    if !manufacturerData.isEmpty { data.add(.manufacturerSpecificData, manufacturerData) }
    let text = Array(name.utf8)
    if text.isEmpty || data.add(.completeLocalName, text) { return (data.octets, []) }
    var response = ADStructures(limit: LESetAdvertisingData.maximumByteCount)
    // A connectable advertisement of the extended form has no scan response.
    if form == .extended {
      data.add(shortened: name)
    } else if !response.add(.completeLocalName, text) {
      response.add(shortened: name)
    }
    return (data.octets, response.octets)
  }
}

/// AD structures one after the other: length, type, value.
private struct ADStructures {
  let limit: Int
  private(set) var octets: [UInt8] = []

  init(limit: Int) { self.limit = limit }

  private var room: Int { limit - octets.count - 2 }

  /// - Returns: whether it fitted.
  @discardableResult
  mutating func add(_ type: AdvertisingDataType, _ value: [UInt8]) -> Bool {
    guard value.count <= room else { return false }
    octets += [UInt8(value.count + 1), type.rawValue] + value
    return true
  }

  /// UUIDs of one length, as many as fit.
  mutating func add(
    _ uuids: [BluetoothUUID], _ complete: AdvertisingDataType, _ incomplete: AdvertisingDataType
  ) {
    guard let first = uuids.first, room >= first.byteCount else { return }
    let fitting = uuids.prefix(room / first.byteCount)
    let value = [UInt8](encoding: 16 * fitting.count) { output in
      for uuid in fitting { output.append(uuid) }
    }
    add(fitting.count == uuids.count ? complete : incomplete, value)
  }

  /// Whole characters only.
  mutating func add(shortened name: String) {
    var name = name[...]
    while !name.isEmpty, name.utf8.count > room { name.removeLast() }
    if !name.isEmpty { add(.shortenedLocalName, Array(name.utf8)) }
  }
}

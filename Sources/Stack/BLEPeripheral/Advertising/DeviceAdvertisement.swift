public import BLEWire

/// Advertised data of a device: name, services and other fields.
///
/// ```swift
/// DeviceAdvertisement(name: "Strap", services: [.heartRate])
/// ```
///
/// If the name does not fit into the advertising data, it is moved to the scan response, and shortened if
/// necessary. Core 5.4, Vol 3, Part C, 11 and 13.1.
public struct DeviceAdvertisement: Hashable, Sendable {
  /// Legacy or extended advertising PDUs.
  public typealias Form = LESetExtendedAdvertisingParameters.Form

  public var name: String
  /// Services by which scanners recognise the device. Services that do not fit are left out.
  public var services: [BluetoothUUID]
  /// Appearance, a value of Bluetooth Assigned Numbers, 2.6; `nil` omits the field.
  public var appearance: UInt16?
  /// Company identifier, least significant byte first, followed by the data; empty to omit the field.
  public var manufacturerData: [UInt8]
  public var interval: AdvertisingInterval
  /// Form of the advertising PDUs. `extended` requires a controller with extended advertising, and only
  /// scanners with extended scanning receive the advertisement.
  public var form: Form
  /// Whether to use resolvable private addresses, changed every 15 minutes. Only bonded devices can then
  /// identify this device. Requires security (`HostAdapter.secure`). With the kernel's host, the kernel must
  /// use private addresses.
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

  /// Encoded AD structures.
  private struct Encoded: Hashable {
    var data, scanResponse: [UInt8]
  }
  /// Encoded data to advertise instead of the fields above, if set.
  private var encoded: Encoded?

  /// Creates a legacy advertisement from AD structures that are already encoded.
  package init(data: [UInt8], scanResponse: [UInt8], interval: AdvertisingInterval) {
    self.init(name: "", interval: interval)
    encoded = Encoded(data: data, scanResponse: scanResponse)
  }

  /// AD structures of the advertisement.
  public var data: [UInt8] { structures.data }
  /// AD structures of the scan response; empty if everything fits into the advertisement.
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
    // Connectable extended advertisements have no scan response.
    if form == .extended {
      data.add(shortened: name)
    } else if !response.add(.completeLocalName, text) {
      response.add(shortened: name)
    }
    return (data.octets, response.octets)
  }
}

/// A sequence of AD structures: length, type, value.
private struct ADStructures {
  let limit: Int
  private(set) var octets: [UInt8] = []

  init(limit: Int) { self.limit = limit }

  private var room: Int { limit - octets.count - 2 }

  /// Adds a structure if it fits.
  ///
  /// - Returns: Whether it fits.
  @discardableResult
  mutating func add(_ type: AdvertisingDataType, _ value: [UInt8]) -> Bool {
    guard value.count <= room else { return false }
    octets += [UInt8(value.count + 1), type.rawValue] + value
    return true
  }

  /// Adds as many UUIDs as fit. All UUIDs have the same length.
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

  /// Adds as many complete characters of a name as fit.
  mutating func add(shortened name: String) {
    var name = name[...]
    while !name.isEmpty, name.utf8.count > room { name.removeLast() }
    if !name.isEmpty { add(.shortenedLocalName, Array(name.utf8)) }
  }
}

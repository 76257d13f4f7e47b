/// Type of an AD structure. Bluetooth Assigned Numbers, 2.3. Unknown values are kept.
public struct AdvertisingDataType: RawRepresentable, Hashable, Sendable, BitwiseCopyable {
  public let rawValue: UInt8
  @inlinable public init(rawValue: UInt8) { self.rawValue = rawValue }

  public static let flags = AdvertisingDataType(rawValue: 0x01)
  public static let incompleteServices16 = AdvertisingDataType(rawValue: 0x02)
  public static let completeServices16 = AdvertisingDataType(rawValue: 0x03)
  public static let incompleteServices32 = AdvertisingDataType(rawValue: 0x04)
  public static let completeServices32 = AdvertisingDataType(rawValue: 0x05)
  public static let incompleteServices128 = AdvertisingDataType(rawValue: 0x06)
  public static let completeServices128 = AdvertisingDataType(rawValue: 0x07)
  public static let shortenedLocalName = AdvertisingDataType(rawValue: 0x08)
  public static let completeLocalName = AdvertisingDataType(rawValue: 0x09)
  public static let txPowerLevel = AdvertisingDataType(rawValue: 0x0A)
  public static let peripheralConnectionIntervalRange = AdvertisingDataType(rawValue: 0x12)
  public static let solicitedServices16 = AdvertisingDataType(rawValue: 0x14)
  public static let solicitedServices128 = AdvertisingDataType(rawValue: 0x15)
  public static let serviceData16 = AdvertisingDataType(rawValue: 0x16)
  public static let publicTargetAddress = AdvertisingDataType(rawValue: 0x17)
  public static let randomTargetAddress = AdvertisingDataType(rawValue: 0x18)
  public static let appearance = AdvertisingDataType(rawValue: 0x19)
  public static let advertisingInterval = AdvertisingDataType(rawValue: 0x1A)
  public static let leBluetoothDeviceAddress = AdvertisingDataType(rawValue: 0x1B)
  public static let leRole = AdvertisingDataType(rawValue: 0x1C)
  public static let solicitedServices32 = AdvertisingDataType(rawValue: 0x1F)
  public static let serviceData32 = AdvertisingDataType(rawValue: 0x20)
  public static let serviceData128 = AdvertisingDataType(rawValue: 0x21)
  public static let uri = AdvertisingDataType(rawValue: 0x24)
  public static let advertisingIntervalLong = AdvertisingDataType(rawValue: 0x2F)
  public static let manufacturerSpecificData = AdvertisingDataType(rawValue: 0xFF)

  /// Size of each UUID in bytes if the structure is a list of service UUIDs, otherwise `nil`.
  @inlinable public var serviceUUIDByteCount: Int? {
    switch rawValue {
    case 0x02, 0x03: 2
    case 0x04, 0x05: 4
    case 0x06, 0x07: 16
    default: nil
    }
  }

  /// Size in bytes of the UUID at the start of a service data structure, otherwise `nil`.
  @inlinable public var serviceDataUUIDByteCount: Int? {
    switch rawValue {
    case 0x16: 2
    case 0x20: 4
    case 0x21: 16
    default: nil
    }
  }
}

/// The AD structures of an advertisement. Core 5.4, Vol 3, Part C, 11.
@frozen public struct AdvertisingData: ~Escapable {
  @usableFromInline let data: Span<UInt8>

  @_lifetime(copy data)
  @inlinable public init(_ data: Span<UInt8>) { self.data = data }

  /// Passes type and value of each structure to `body`. A zero length ends the list early, as the
  /// specification allows.
  ///
  /// - Throws: `lengthMismatch` for the first structure that extends past the end, after `body` has received
  ///   the preceding structures.
  @inlinable public func forEach(
    _ body: (AdvertisingDataType, Span<UInt8>) -> Void
  ) throws(WireError) {
    var offset = 0
    while offset < data.count {
      let length = Int(data[offset])
      if length == 0 { return }
      guard offset + 1 + length <= data.count else {
        throw WireError(
          .advertisingData, offset: offset,
          .lengthMismatch(claimed: length, available: data.count - offset - 1))
      }
      body(
        AdvertisingDataType(rawValue: data[offset + 1]),
        data.extracting(offset + 2..<offset + 1 + length))
      offset += 1 + length
    }
  }
}

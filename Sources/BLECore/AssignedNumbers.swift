/// Names for the SIG's 16-bit UUIDs that this stack uses.
///
/// Bluetooth Assigned Numbers, 3.4–3.8. Only what code refers to by name; text for people is looked up
/// where it is printed.
extension BluetoothUUID {
  // Declarations (Core 5.4, Vol 3, Part G, 3)
  public static let primaryService = BluetoothUUID(0x2800)
  public static let secondaryService = BluetoothUUID(0x2801)
  public static let include = BluetoothUUID(0x2802)
  public static let characteristic = BluetoothUUID(0x2803)

  // Descriptors
  public static let characteristicExtendedProperties = BluetoothUUID(0x2900)
  public static let characteristicUserDescription = BluetoothUUID(0x2901)
  public static let clientCharacteristicConfiguration = BluetoothUUID(0x2902)

  // Services
  public static let genericAccess = BluetoothUUID(0x1800)
  public static let genericAttribute = BluetoothUUID(0x1801)
  public static let deviceInformation = BluetoothUUID(0x180A)
  public static let heartRate = BluetoothUUID(0x180D)

  // Characteristics
  public static let deviceName = BluetoothUUID(0x2A00)
  public static let appearance = BluetoothUUID(0x2A01)
  public static let serviceChanged = BluetoothUUID(0x2A05)
  public static let firmwareRevision = BluetoothUUID(0x2A26)
  public static let hardwareRevision = BluetoothUUID(0x2A27)
  public static let manufacturerName = BluetoothUUID(0x2A29)
}

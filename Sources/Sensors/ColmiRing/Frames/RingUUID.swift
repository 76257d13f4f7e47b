public import BLEWire

/// Services and characteristics of COLMI rings. All but Device Information are the maker's own.
///
/// The rings rarely put a service UUID in their advertisement: find them by name (`RingName`). Handles
/// differ between firmwares; discover them.
public enum RingUUID {
  /// Commands and their replies, the raw stream included. Not the Nordic UART service, whose two
  /// characteristics it borrows.
  public static let commandService = BluetoothUUID(high: 0x6E40_FFF0_B5A3_F393, low: 0xE0A9_E50E_24DC_CA9E)
  /// Host to ring, 16-octet frames; write or write without response.
  public static let commandWrite = BluetoothUUID(high: 0x6E40_0002_B5A3_F393, low: 0xE0A9_E50E_24DC_CA9E)
  /// Ring to host, 16-octet frames; notify.
  public static let commandNotify = BluetoothUUID(high: 0x6E40_0003_B5A3_F393, low: 0xE0A9_E50E_24DC_CA9E)

  /// Long logs and firmware update.
  public static let bigDataService = BluetoothUUID(high: 0xDE5B_F728_D711_4E47, low: 0xAF26_65E3_012A_5DC7)
  /// Host to ring, 0xBC frames; write without response.
  public static let bigDataWrite = BluetoothUUID(high: 0xDE5B_F72A_D711_4E47, low: 0xAF26_65E3_012A_5DC7)
  /// Ring to host, 0xBC frames; notify. Some rings repeat the raw stream here.
  public static let bigDataNotify = BluetoothUUID(high: 0xDE5B_F729_D711_4E47, low: 0xAF26_65E3_012A_5DC7)
}

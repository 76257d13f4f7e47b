public import BLEWire

/// Services and characteristics of COLMI rings. All except Device Information are vendor-specific.
///
/// Rings rarely advertise a service UUID: find them by name (`RingName`). Handles differ between firmwares;
/// discover them.
public enum RingUUID {
  /// Service of commands and replies, including the raw stream. It is not the Nordic UART service, but it
  /// reuses the UUIDs of that service's two characteristics.
  public static let commandService = BluetoothUUID(high: 0x6E40_FFF0_B5A3_F393, low: 0xE0A9_E50E_24DC_CA9E)
  /// From host to ring, frames of 16 bytes; write or write without response.
  public static let commandWrite = BluetoothUUID(high: 0x6E40_0002_B5A3_F393, low: 0xE0A9_E50E_24DC_CA9E)
  /// From ring to host, frames of 16 bytes; notify.
  public static let commandNotify = BluetoothUUID(high: 0x6E40_0003_B5A3_F393, low: 0xE0A9_E50E_24DC_CA9E)

  /// Service of long logs and firmware updates.
  public static let bigDataService = BluetoothUUID(high: 0xDE5B_F728_D711_4E47, low: 0xAF26_65E3_012A_5DC7)
  /// From host to ring, frames starting with 0xBC; write without response.
  public static let bigDataWrite = BluetoothUUID(high: 0xDE5B_F72A_D711_4E47, low: 0xAF26_65E3_012A_5DC7)
  /// From ring to host, frames starting with 0xBC; notify. Some rings repeat the raw stream here.
  public static let bigDataNotify = BluetoothUUID(high: 0xDE5B_F729_D711_4E47, low: 0xAF26_65E3_012A_5DC7)
}

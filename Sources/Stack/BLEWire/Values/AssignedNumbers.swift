/// Names for the SIG's 16-bit UUIDs that this stack uses.
///
/// Bluetooth Assigned Numbers, 3.4–3.8. Contains only UUIDs that the code refers to by name. Code that prints
/// a UUID looks up its name in a separate table.
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
  public static let characteristicPresentationFormat = BluetoothUUID(0x2904)
  public static let characteristicAggregateFormat = BluetoothUUID(0x2905)
  public static let validRange = BluetoothUUID(0x2906)

  // Services
  public static let genericAccess = BluetoothUUID(0x1800)
  public static let genericAttribute = BluetoothUUID(0x1801)
  public static let deviceInformation = BluetoothUUID(0x180A)
  public static let heartRate = BluetoothUUID(0x180D)
  public static let healthThermometer = BluetoothUUID(0x1809)
  public static let battery = BluetoothUUID(0x180F)
  public static let cyclingSpeedAndCadence = BluetoothUUID(0x1816)

  // Characteristics
  public static let deviceName = BluetoothUUID(0x2A00)
  public static let appearance = BluetoothUUID(0x2A01)
  public static let serviceChanged = BluetoothUUID(0x2A05)
  public static let batteryLevel = BluetoothUUID(0x2A19)
  public static let batteryPowerState = BluetoothUUID(0x2A1A)
  public static let temperatureMeasurement = BluetoothUUID(0x2A1C)
  public static let temperature = BluetoothUUID(0x2A6E)
  public static let temperatureType = BluetoothUUID(0x2A1D)
  public static let intermediateTemperature = BluetoothUUID(0x2A1E)
  public static let measurementInterval = BluetoothUUID(0x2A21)
  public static let systemID = BluetoothUUID(0x2A23)
  public static let modelNumber = BluetoothUUID(0x2A24)
  public static let serialNumber = BluetoothUUID(0x2A25)
  public static let firmwareRevision = BluetoothUUID(0x2A26)
  public static let hardwareRevision = BluetoothUUID(0x2A27)
  public static let softwareRevision = BluetoothUUID(0x2A28)
  public static let manufacturerName = BluetoothUUID(0x2A29)
  public static let regulatoryCertification = BluetoothUUID(0x2A2A)
  public static let clientSupportedFeatures = BluetoothUUID(0x2B29)
  public static let databaseHash = BluetoothUUID(0x2B2A)
  public static let heartRateMeasurement = BluetoothUUID(0x2A37)
  public static let bodySensorLocation = BluetoothUUID(0x2A38)
  public static let heartRateControlPoint = BluetoothUUID(0x2A39)
  public static let pnpID = BluetoothUUID(0x2A50)
  public static let rscMeasurement = BluetoothUUID(0x2A53)
  public static let rscFeature = BluetoothUUID(0x2A54)
  public static let sensorControlPoint = BluetoothUUID(0x2A55)
  public static let cscMeasurement = BluetoothUUID(0x2A5B)
  public static let cscFeature = BluetoothUUID(0x2A5C)
  public static let sensorLocation = BluetoothUUID(0x2A5D)
  public static let plxSpotCheck = BluetoothUUID(0x2A5E)
  public static let plxContinuous = BluetoothUUID(0x2A5F)
  public static let plxFeatures = BluetoothUUID(0x2A60)
  public static let batteryLevelStatus = BluetoothUUID(0x2BED)
}

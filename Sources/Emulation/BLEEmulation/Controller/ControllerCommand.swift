/// The commands of a virtual controller. All other commands are answered with Unknown HCI Command.
///
/// Core 5.4, Vol 4, Part E, 7. This list determines both the implemented commands and the Supported Commands.
enum ControllerCommand: UInt16, CaseIterable {
  case disconnect = 0x0406
  case readRemoteVersion = 0x041D
  case setEventMask = 0x0C01
  case reset = 0x0C03
  case readTransmitPowerLevel = 0x0C2D
  case setEventMaskPage2 = 0x0C63
  case readLocalVersion = 0x1001
  case readLocalSupportedCommands = 0x1002
  case readLocalSupportedFeatures = 0x1003
  case readBufferSize = 0x1005
  case readBDADDR = 0x1009
  case readRSSI = 0x1405

  case setLEEventMask = 0x2001
  case readLEBufferSize = 0x2002
  case readLEFeatures = 0x2003
  case setRandomAddress = 0x2005
  case setAdvertisingParameters = 0x2006
  case readAdvertisingTransmitPower = 0x2007
  case setAdvertisingData = 0x2008
  case setScanResponseData = 0x2009
  case setAdvertisingEnable = 0x200A
  case setScanParameters = 0x200B
  case setScanEnable = 0x200C
  case createConnection = 0x200D
  case createConnectionCancel = 0x200E
  case readAcceptListSize = 0x200F
  case clearAcceptList = 0x2010
  case addToAcceptList = 0x2011
  case removeFromAcceptList = 0x2012
  case connectionUpdate = 0x2013
  case setHostChannelClassification = 0x2014
  case readChannelMap = 0x2015
  case readRemoteFeatures = 0x2016
  case encrypt = 0x2017
  case rand = 0x2018
  case enableEncryption = 0x2019
  case longTermKeyRequestReply = 0x201A
  case longTermKeyRequestNegativeReply = 0x201B
  case readSupportedStates = 0x201C
  case setDataLength = 0x2022
  case readDefaultDataLength = 0x2023
  case writeDefaultDataLength = 0x2024
  case addToResolvingList = 0x2027
  case removeFromResolvingList = 0x2028
  case clearResolvingList = 0x2029
  case readResolvingListSize = 0x202A
  case setAddressResolutionEnable = 0x202D
  case setPrivateAddressTimeout = 0x202E
  case readMaximumDataLength = 0x202F
  case readPHY = 0x2030
  case setDefaultPHY = 0x2031
  case setPHY = 0x2032

  case setAdvertisingSetRandomAddress = 0x2035
  case setExtendedAdvertisingParameters = 0x2036
  case setExtendedAdvertisingData = 0x2037
  case setExtendedScanResponseData = 0x2038
  case setExtendedAdvertisingEnable = 0x2039
  case readMaximumAdvertisingDataLength = 0x203A
  case readNumberOfAdvertisingSets = 0x203B
  case removeAdvertisingSet = 0x203C
  case clearAdvertisingSets = 0x203D
  case setExtendedScanParameters = 0x2041
  case setExtendedScanEnable = 0x2042
  case extendedCreateConnection = 0x2043

  /// The set that a command belongs to. A host must not mix legacy and extended commands. Core 5.4, Vol 4,
  /// Part E, 3.1.1.
  enum Family { case common, legacy, extended }

  var family: Family {
    switch self {
    case .setAdvertisingParameters, .readAdvertisingTransmitPower, .setAdvertisingData,
      .setScanResponseData, .setAdvertisingEnable, .setScanParameters, .setScanEnable,
      .createConnection:
      .legacy
    case .setAdvertisingSetRandomAddress, .setExtendedAdvertisingParameters,
      .setExtendedAdvertisingData, .setExtendedScanResponseData, .setExtendedAdvertisingEnable,
      .readMaximumAdvertisingDataLength, .readNumberOfAdvertisingSets, .removeAdvertisingSet,
      .clearAdvertisingSets, .setExtendedScanParameters, .setExtendedScanEnable,
      .extendedCreateConnection:
      .extended
    default: .common
    }
  }

  /// Whether the controller answers with Command Status and reports the result in a separate event.
  var hasStatusOnly: Bool {
    switch self {
    case .disconnect, .readRemoteVersion, .createConnection, .extendedCreateConnection,
      .connectionUpdate, .readRemoteFeatures, .setPHY, .enableEncryption:
      true
    default: false
    }
  }

  /// Length of the parameters in bytes; for data commands, the minimum length.
  var parameterByteCount: Int {
    switch self {
    case .disconnect, .readTransmitPowerLevel, .setDefaultPHY: 3
    case .readRemoteVersion, .readRSSI, .readChannelMap, .readRemoteFeatures, .readPHY,
      .setScanEnable, .setPrivateAddressTimeout, .setExtendedAdvertisingEnable,
      .longTermKeyRequestNegativeReply:
      2
    case .setEventMask, .setEventMaskPage2, .setLEEventMask: 8
    case .setRandomAddress: 6
    case .setAdvertisingParameters: 15
    case .setAdvertisingData, .setScanResponseData: 32
    case .setAdvertisingEnable, .setAddressResolutionEnable, .removeAdvertisingSet: 1
    case .setScanParameters, .addToAcceptList, .removeFromAcceptList, .removeFromResolvingList,
      .setPHY, .setAdvertisingSetRandomAddress:
      7
    case .createConnection, .setExtendedAdvertisingParameters: 25
    case .connectionUpdate: 14
    case .setHostChannelClassification: 5
    case .setDataLength, .setExtendedScanEnable: 6
    case .writeDefaultDataLength, .setExtendedAdvertisingData, .setExtendedScanResponseData: 4
    case .addToResolvingList: 39
    case .encrypt: 32
    case .enableEncryption: 28
    case .longTermKeyRequestReply: 18
    case .setExtendedScanParameters: 8
    case .extendedCreateConnection: 26
    default: 0
    }
  }

  var hasVariableParameters: Bool {
    switch self {
    case .setExtendedAdvertisingData, .setExtendedScanResponseData, .setExtendedAdvertisingEnable,
      .setExtendedScanParameters, .extendedCreateConnection:
      true
    default: false
    }
  }

  /// Byte and bit of this command in Supported_Commands. Core 5.4, Vol 4, Part E, 6.27.
  var supportBit: (octet: Int, bit: Int) {
    switch self {
    case .disconnect: (0, 5)
    case .readRemoteVersion: (2, 7)
    case .setEventMask: (5, 6)
    case .reset: (5, 7)
    case .readTransmitPowerLevel: (10, 2)
    case .readLocalVersion: (14, 3)
    case .readLocalSupportedCommands: (14, 4)
    case .readLocalSupportedFeatures: (14, 5)
    case .readBufferSize: (14, 7)
    case .readBDADDR: (15, 1)
    case .readRSSI: (15, 5)
    case .setEventMaskPage2: (22, 2)
    case .setLEEventMask: (25, 0)
    case .readLEBufferSize: (25, 1)
    case .readLEFeatures: (25, 2)
    case .setRandomAddress: (25, 4)
    case .setAdvertisingParameters: (25, 5)
    case .readAdvertisingTransmitPower: (25, 6)
    case .setAdvertisingData: (25, 7)
    case .setScanResponseData: (26, 0)
    case .setAdvertisingEnable: (26, 1)
    case .setScanParameters: (26, 2)
    case .setScanEnable: (26, 3)
    case .createConnection: (26, 4)
    case .createConnectionCancel: (26, 5)
    case .readAcceptListSize: (26, 6)
    case .clearAcceptList: (26, 7)
    case .addToAcceptList: (27, 0)
    case .removeFromAcceptList: (27, 1)
    case .connectionUpdate: (27, 2)
    case .setHostChannelClassification: (27, 3)
    case .readChannelMap: (27, 4)
    case .readRemoteFeatures: (27, 5)
    case .encrypt: (27, 6)
    case .rand: (27, 7)
    case .enableEncryption: (28, 0)
    case .longTermKeyRequestReply: (28, 1)
    case .longTermKeyRequestNegativeReply: (28, 2)
    case .readSupportedStates: (28, 3)
    case .setDataLength: (33, 6)
    case .readDefaultDataLength: (33, 7)
    case .writeDefaultDataLength: (34, 0)
    case .addToResolvingList: (34, 3)
    case .removeFromResolvingList: (34, 4)
    case .clearResolvingList: (34, 5)
    case .readResolvingListSize: (34, 6)
    case .setAddressResolutionEnable: (35, 1)
    case .setPrivateAddressTimeout: (35, 2)
    case .readMaximumDataLength: (35, 3)
    case .readPHY: (35, 4)
    case .setDefaultPHY: (35, 5)
    case .setPHY: (35, 6)
    case .setAdvertisingSetRandomAddress: (36, 1)
    case .setExtendedAdvertisingParameters: (36, 2)
    case .setExtendedAdvertisingData: (36, 3)
    case .setExtendedScanResponseData: (36, 4)
    case .setExtendedAdvertisingEnable: (36, 5)
    case .readMaximumAdvertisingDataLength: (36, 6)
    case .readNumberOfAdvertisingSets: (36, 7)
    case .removeAdvertisingSet: (37, 0)
    case .clearAdvertisingSets: (37, 1)
    case .setExtendedScanParameters: (37, 5)
    case .setExtendedScanEnable: (37, 6)
    case .extendedCreateConnection: (37, 7)
    }
  }
}

import BLEWire

/// Commands that query the controller, and commands that only set a value.
extension VirtualController {
  /// Core Specification 5.4 (Bluetooth Assigned Numbers, 2.1).
  private static let specificationVersion: UInt8 = 0x0D
  /// The identifier "not to be used in shipping products", so that hosts apply no quirks of a manufacturer.
  private static let companyIdentifier: UInt16 = 0xFFFF
  /// All combinations of advertising, scanning, initiating and being central. Core 5.4, Vol 4, Part E,
  /// 7.8.27.
  private static let supportedStates: UInt64 = 0x0000_03FF_FFFF_FFFF
  private static let resolvingListCapacity: UInt8 = 8

  /// LE features: LE Encryption, Data Packet Length Extension and LE 2M PHY, and Extended Advertising if
  /// configured.
  ///
  /// Core 5.4, Vol 6, Part B, 4.6.
  var features: UInt64 {
    let always: UInt64 = 1 << 0 | 1 << 5 | 1 << 8
    return configuration.commandSet == .extended ? always | 1 << 12 : always
  }

  func execute(_ packet: borrowing HCICommandPacket, now: MonotonicTime) {
    guard let command = ControllerCommand(rawValue: packet.opcode.rawValue), has(command) else {
      complete(packet.opcode, .unknownCommand)
      return
    }
    guard hasRightLength(packet.parameters, for: command) else {
      refuse(command, .invalidParameters)
      return
    }
    guard isAllowed(command) else {
      refuse(command, .commandDisallowed)
      return
    }
    if let code = injected.refusal(of: packet.opcode) {
      refuse(command, code)
      return
    }
    switch command {
    case .reset: reset()
    case .setScanParameters, .setExtendedScanParameters: setScanParameters(command, packet.parameters)
    case .setScanEnable, .setExtendedScanEnable:
      setScanEnable(command, packet.parameters, now: now)
    case .createConnection: createConnection(packet.parameters, now: now)
    case .extendedCreateConnection: extendedCreateConnection(packet.parameters, now: now)
    case .createConnectionCancel: cancelConnection()
    case .readAcceptListSize, .clearAcceptList, .addToAcceptList, .removeFromAcceptList:
      changeAcceptList(command, packet.parameters)
    case .setAdvertisingParameters, .setAdvertisingData, .setScanResponseData, .setAdvertisingEnable,
      .setAdvertisingSetRandomAddress, .setExtendedAdvertisingParameters, .setExtendedAdvertisingData,
      .setExtendedScanResponseData, .setExtendedAdvertisingEnable, .removeAdvertisingSet,
      .clearAdvertisingSets:
      changeAdvertising(command, packet.parameters)
    case .disconnect, .readRemoteVersion, .readRSSI, .readTransmitPowerLevel, .connectionUpdate,
      .readChannelMap, .readRemoteFeatures, .setDataLength, .readPHY, .setPHY, .enableEncryption,
      .longTermKeyRequestReply, .longTermKeyRequestNegativeReply:
      executeOnLink(command, packet.parameters)
    case .encrypt: encryptBlock(packet.parameters)
    default: inform(command, packet.parameters)
    }
  }

  func refuse(_ command: ControllerCommand, _ code: HCIStatus) {
    if command.hasStatusOnly { status(command, code) } else { complete(command, code) }
  }

  private func has(_ command: ControllerCommand) -> Bool {
    command.family != .extended || configuration.commandSet == .extended
  }

  private func hasRightLength(_ parameters: Span<UInt8>, for command: ControllerCommand) -> Bool {
    command.hasVariableParameters
      ? parameters.count >= command.parameterByteCount
      : parameters.count == command.parameterByteCount
  }

  /// Whether the host may use a command: after a legacy command the extended ones are disallowed, and vice
  /// versa. Core 5.4, Vol 4, Part E, 3.1.1.
  private func isAllowed(_ command: ControllerCommand) -> Bool {
    guard command.family != .common else { return true }
    if state.family == nil { state.family = command.family }
    return state.family == command.family
  }

  private func reset() {
    leave()
    complete(.reset)
  }

  /// Discards all state, as when the controller is switched off and on. Peers detect that by timeout.
  func leave() {
    let ends = links
    links = []
    for end in ends { end.link?.abandon(end) }
    nextAdvertisement = nil
    state = State()
  }

  private func inform(_ command: ControllerCommand, _ parameters: Span<UInt8>) {
    switch command {
    case .setEventMask:
      state.mask.events = parameters.u64(at: 0)
      complete(command)
    case .setLEEventMask:
      state.mask.leEvents = parameters.u64(at: 0)
      complete(command)
    case .setRandomAddress:
      state.randomAddress = parameters.address(at: 0, type: .random)
      complete(command)
    case .readLocalVersion:
      complete(command, capacity: 8) {
        $0.append(Self.specificationVersion)
        $0.append(u16: 0)
        $0.append(Self.specificationVersion)
        $0.append(u16: Self.companyIdentifier)
        $0.append(u16: 0)
      }
    case .readLocalSupportedCommands:
      let bits = supportedCommands
      complete(command, capacity: 64) { $0.append(bits.span) }
    case .readLocalSupportedFeatures:
      // With BR/EDR Not Supported and LE Supported the kernel enables LE by itself. Core 5.4, Vol 2, Part C,
      // 3.3, bits 37 and 38.
      complete(command, capacity: 8) { $0.append(u64: 1 << 37 | 1 << 38) }
    case .readBDADDR: complete(command, capacity: 6) { $0.append(configuration.address) }
    case .readBufferSize:
      complete(command, capacity: 7) {
        $0.append(u16: UInt16(configuration.aclByteCount))
        $0.append(0)
        $0.append(u16: UInt16(configuration.aclPacketCount))
        $0.append(u16: 0)
      }
    case .readLEBufferSize:
      complete(command, capacity: 3) {
        $0.append(u16: UInt16(configuration.aclByteCount))
        $0.append(configuration.aclPacketCount)
      }
    case .readLEFeatures: complete(command, capacity: 8) { $0.append(u64: features) }
    case .readSupportedStates: complete(command, capacity: 8) { $0.append(u64: Self.supportedStates) }
    case .readAdvertisingTransmitPower: complete(command, capacity: 1) { $0.append(0) }
    case .rand: complete(command, capacity: 8) { $0.append(u64: state.random.next()) }
    case .readResolvingListSize:
      complete(command, capacity: 1) { $0.append(Self.resolvingListCapacity) }
    default: informData(command, parameters)
    }
  }

  /// Handles commands about data length and advertising sizes. Other values are stored without effect.
  private func informData(_ command: ControllerCommand, _ parameters: Span<UInt8>) {
    let maximum = DataLength.maximum
    switch command {
    case .readMaximumDataLength:
      complete(command, capacity: 8) {
        for _ in 0..<2 {
          $0.append(u16: maximum.octets)
          $0.append(u16: maximum.time)
        }
      }
    case .readDefaultDataLength:
      complete(command, capacity: 4) {
        $0.append(u16: state.defaultDataLength.octets)
        $0.append(u16: state.defaultDataLength.time)
      }
    case .writeDefaultDataLength:
      state.defaultDataLength =
        DataLength(octets: parameters.u16(at: 0), time: parameters.u16(at: 2)).clamped
      complete(command)
    case .readMaximumAdvertisingDataLength:
      complete(command, capacity: 2) { $0.append(u16: UInt16(Advertisement.maximumByteCount)) }
    case .readNumberOfAdvertisingSets: complete(command, capacity: 1) { $0.append(1) }
    default: complete(command)
    }
  }

  private var supportedCommands: [UInt8] {
    var bits = [UInt8](repeating: 0, count: 64)
    for command in ControllerCommand.allCases where has(command) {
      bits[command.supportBit.octet] |= 1 << UInt8(command.supportBit.bit)
    }
    return bits
  }
}

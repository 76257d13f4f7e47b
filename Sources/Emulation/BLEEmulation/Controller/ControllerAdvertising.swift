import BLEWire

extension VirtualController {
  /// The host's advertising settings. There is only one set; its handle is ignored. Core 5.4, Vol 4, Part E,
  /// 7.8.5–9.
  struct Advertising {
    var isEnabled = false
    var kind = Advertisement.Kind.connectable
    /// Advertising interval in units of 0.625 ms.
    var interval: UInt32 = 0x0800
    var ownType: UInt8 = 0
    /// The random address of the set, set with the extended commands.
    var setAddress: DeviceAddress?
    var setHandle: UInt8 = 0
    var data: [UInt8] = []
    var scanResponse: [UInt8] = []
  }

  func changeAdvertising(_ command: ControllerCommand, _ parameters: Span<UInt8>) {
    switch command {
    case .setAdvertisingParameters: setAdvertisingParameters(parameters)
    case .setExtendedAdvertisingParameters: setExtendedAdvertisingParameters(parameters)
    case .setAdvertisingData, .setScanResponseData:
      setData(command, parameters.extracting(1...), byteCount: parameters[0], isContinued: false)
    case .setExtendedAdvertisingData, .setExtendedScanResponseData: setExtendedData(command, parameters)
    case .setAdvertisingSetRandomAddress:
      state.advertising.setAddress = parameters.address(at: 1, type: .random)
      complete(command)
    case .setAdvertisingEnable: enable(command, parameters[0])
    case .setExtendedAdvertisingEnable:
      guard parameters.count == 2 + 4 * Int(parameters[1]) else {
        return complete(command, .invalidParameters)
      }
      enable(command, parameters[0])
    default:  // Remove and Clear Advertising Sets
      guard !state.advertising.isEnabled else { return complete(command, .commandDisallowed) }
      state.advertising = Advertising()
      complete(command)
    }
  }

  /// Sets the parameters. Directed advertising (types 1 and 4) is not supported.
  private func setAdvertisingParameters(_ parameters: Span<UInt8>) {
    let command = ControllerCommand.setAdvertisingParameters
    guard !state.advertising.isEnabled else { return complete(command, .commandDisallowed) }
    let (least, most) = (parameters.u16(at: 0), parameters.u16(at: 2))
    guard least <= most, (0x20...0x4000).contains(least), parameters[4] <= 4 else {
      return complete(command, .invalidParameters)
    }
    guard let kind = Advertisement.Kind(rawValue: parameters[4]) else {
      return complete(command, .unsupportedFeature)
    }
    state.advertising.kind = kind
    state.advertising.interval = UInt32(least)
    state.advertising.ownType = parameters[5]
    complete(command)
  }

  /// Sets the parameters. Only the properties of undirected legacy packets are supported: 13, 12 and 10. Core
  /// 5.4, Vol 4, Part E, 7.8.53.
  private func setExtendedAdvertisingParameters(_ parameters: Span<UInt8>) {
    let command = ControllerCommand.setExtendedAdvertisingParameters
    let kinds: [UInt16: Advertisement.Kind] = [
      0x0013: .connectable, 0x0012: .scannable, 0x0010: .nonConnectable,
    ]
    let kind = kinds[parameters.u16(at: 1)]
    let code: HCIStatus =
      state.advertising.isEnabled
      ? .commandDisallowed
      : kind == nil ? .unsupportedFeature : parameters.u24(at: 3) < 0x20 ? .invalidParameters : .success
    if code == .success, let kind {
      state.advertising.setHandle = parameters[0]
      state.advertising.kind = kind
      state.advertising.interval = parameters.u24(at: 3)
      state.advertising.ownType = parameters[10]
    }
    complete(command, code, capacity: 1) { $0.append(0) }  // selected power in dBm
  }

  private func setExtendedData(_ command: ControllerCommand, _ parameters: Span<UInt8>) {
    // Operation: 0 intermediate, 1 first, 2 last, 3 complete, 4 unchanged.
    switch parameters[1] {
    case 4: complete(command)
    case 0...3:
      setData(
        command, parameters.extracting(4...), byteCount: parameters[3],
        isContinued: parameters[1] == 0 || parameters[1] == 2)
    default: complete(command, .invalidParameters)
    }
  }

  private func setData(
    _ command: ControllerCommand, _ data: Span<UInt8>, byteCount: UInt8, isContinued: Bool
  ) {
    let isResponse = command == .setScanResponseData || command == .setExtendedScanResponseData
    var octets: [UInt8] =
      !isContinued ? [] : isResponse ? state.advertising.scanResponse : state.advertising.data
    guard Int(byteCount) <= data.count,
      octets.count + Int(byteCount) <= Advertisement.maximumByteCount
    else { return complete(command, .invalidParameters) }
    for index in 0..<Int(byteCount) { octets.append(data[index]) }
    if isResponse {
      state.advertising.scanResponse = octets
    } else {
      state.advertising.data = octets
    }
    complete(command)
  }

  private func enable(_ command: ControllerCommand, _ value: UInt8) {
    guard value <= 1 else { return complete(command, .invalidParameters) }
    state.advertising.isEnabled = value == 1
    nextAdvertisement = nil
    if value == 1 { air.resumeAdvertising() }
    complete(command)
  }

  /// Ends advertising because a central has connected. Reports the end to hosts that use sets. Core 5.4, Vol
  /// 4, Part E, 7.7.65.18.
  func endAdvertising(connectedBy end: LinkEnd) {
    state.advertising.isEnabled = false
    guard state.family == .extended else { return }
    event(.advertisingSetTerminated, capacity: 5) {
      $0.append(HCIStatus.success.rawValue)
      $0.append(state.advertising.setHandle)
      $0.append(u16: end.handle.rawValue)
      $0.append(0)  // events: not counted
    }
  }
}

extension VirtualController: Advertiser {
  var identity: DeviceAddress { configuration.address }

  var advertisement: Advertisement? {
    let advertising = state.advertising
    guard advertising.isEnabled else { return nil }
    return Advertisement(
      address: advertisedAddress, kind: advertising.kind,
      interval: .microseconds(625 * Int64(advertising.interval)), data: advertising.data,
      scanResponse: advertising.scanResponse)
  }

  private var advertisedAddress: DeviceAddress {
    state.advertising.ownType & 1 == 0
      ? configuration.address : state.advertising.setAddress ?? state.randomAddress
  }

  func linkEnd(as address: DeviceAddress, to central: DeviceAddress, now: MonotonicTime) -> LinkEnd {
    LinkEnd(
      .peripheral, freeHandle(), owner: self, address: configuration.address, peer: central, now: now)
  }
}

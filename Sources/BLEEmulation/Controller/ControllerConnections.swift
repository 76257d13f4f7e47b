import BLECore
import BLEStack
import BLEWire

/// Links: made, changed, ended. Core 5.4, Vol 4, Part E, 7.1.6, 7.8.12–21, 7.8.66.
extension VirtualController {
  func createConnection(_ parameters: Span<UInt8>, now: MonotonicTime) {
    initiate(
      .createConnection, filterPolicy: parameters[4], peerType: parameters[5],
      peer: parameters.address(at: 6, type: .public), parameters, timingAt: 13, now: now)
  }

  /// Takes the timing of the first PHY asked for.
  func extendedCreateConnection(_ parameters: Span<UInt8>, now: MonotonicTime) {
    guard parameters.count == 10 + 16 * (parameters[9] & 0x07).nonzeroBitCount else {
      return status(.extendedCreateConnection, .invalidParameters)
    }
    initiate(
      .extendedCreateConnection, filterPolicy: parameters[0], peerType: parameters[2],
      peer: parameters.address(at: 3, type: .public), parameters, timingAt: 14, now: now)
  }

  private func initiate(
    _ command: ControllerCommand, filterPolicy: UInt8, peerType: UInt8, peer: DeviceAddress,
    _ parameters: Span<UInt8>, timingAt offset: Int, now: MonotonicTime
  ) {
    guard filterPolicy <= 1, let type = AddressType(rawValue: peerType & 1),
      let timing = linkParameters(parameters, at: offset)
    else { return status(command, .invalidParameters) }
    guard state.initiation == nil else { return status(command, .commandDisallowed) }
    let target = filterPolicy == 0 ? peer.with(type: type) : nil
    if let target, stations.contains(where: { $0.link != nil && $0.address == target }) {
      return status(command, .connectionAlreadyExists)
    }
    let wasListening = isListening
    state.initiation = Initiation(peer: target, parameters: timing)
    if !wasListening { resumeAdvertising(now: now) }
    status(command)
  }

  /// Interval (least, most), latency, time-out; the most of the interval is taken, as many controllers do.
  ///
  /// - Returns: `nil` out of the ranges of Core 5.4, Vol 4, Part E, 7.8.12.
  private func linkParameters(_ bytes: Span<UInt8>, at offset: Int) -> LinkParameters? {
    let (least, most) = (bytes.u16(at: offset), bytes.u16(at: offset + 2))
    let (latency, timeout) = (bytes.u16(at: offset + 4), bytes.u16(at: offset + 6))
    guard least >= 6, least <= most, most <= 3200, latency <= 499, (10...3200).contains(timeout),
      // The time-out must outlast two intervals with latency: 10 ms · t > 2 · 1.25 ms · i · (1 + l).
      UInt32(timeout) * 4 > (1 + UInt32(latency)) * UInt32(most)
    else { return nil }
    return LinkParameters(interval: most, latency: latency, supervisionTimeout: timeout)
  }

  func cancelConnection() {
    guard state.initiation != nil else { return complete(.createConnectionCancel, .commandDisallowed) }
    state.initiation = nil
    complete(.createConnectionCancel)
    connectionComplete(.unknownConnection, nil)
  }

  func connect(
    _ station: Station, to address: DeviceAddress, _ parameters: LinkParameters, now: MonotonicTime
  ) {
    state.initiation = nil
    let link = PeripheralLink(
      handle: station.handle, peer: configuration.address, parameters: parameters,
      database: station.database, receiveMTU: station.peripheral.receiveMTU, outbox: outbox,
      fragmentByteCount: configuration.aclByteCount)
    station.link = link
    station.address = address
    connectionComplete(.success, station)
    station.peripheral.connected(link, now: now)
    settle(station, now: now)
  }

  /// LE Connection Complete, or the enhanced form where the host unmasked it.
  private func connectionComplete(_ code: HCIStatus, _ station: Station?) {
    let link = station?.link
    let address = station?.address ?? .any
    let isEnhanced = state.mask.allows(.enhancedConnectionComplete)
    event(isEnhanced ? .enhancedConnectionComplete : .connectionComplete, capacity: 30) {
      $0.append(code.rawValue)
      $0.append(u16: link?.handle.rawValue ?? 0)
      $0.append(0)  // role: central
      $0.append(address.type.rawValue)
      $0.append(address)
      if isEnhanced { $0.append(zeros: 12) }  // no private addresses
      $0.append(u16: link?.parameters.interval ?? 0)
      $0.append(u16: link?.parameters.latency ?? 0)
      $0.append(u16: link?.parameters.supervisionTimeout ?? 0)
      $0.append(0)  // central clock accuracy: 500 ppm
    }
  }

  /// After a peripheral acted: ends the link if it asked for that.
  func settle(_ station: Station, now: MonotonicTime) {
    if let reason = station.link?.endReason { end(station, reason, now: now) }
  }

  private func end(_ station: Station, _ reason: HCIStatus, now: MonotonicTime) {
    guard let link = station.link else { return }
    station.database = link.database
    station.link = nil
    event(.disconnectionComplete, capacity: 4) {
      DisconnectionComplete(status: .success, handle: link.handle, reason: reason).encode(into: &$0)
    }
    station.peripheral.disconnected(now: now)
    if isListening { resumeAdvertising(now: now) }
  }

  // MARK: Commands that name a link

  func executeOnLink(_ command: ControllerCommand, _ parameters: Span<UInt8>, now: MonotonicTime) {
    let handle = ConnectionHandle(parameters.u16(at: 0))
    guard let station = stations.first(where: { $0.handle == handle }), let link = station.link else {
      return refuse(command, .unknownConnection)
    }
    switch command {
    case .disconnect:
      status(command)
      end(station, .localHostTerminated, now: now)
    case .connectionUpdate: update(link, parameters)
    case .readRemoteVersion:
      status(command)
      event(.readRemoteVersionComplete, capacity: 8) {
        $0.append(HCIStatus.success.rawValue)
        $0.append(u16: handle.rawValue)
        $0.append(0x09)  // Core 5.0
        $0.append(u16: 0xFFFF)
        $0.append(u16: 0)
      }
    case .readRemoteFeatures:
      status(command)
      event(.readRemoteFeaturesComplete, capacity: 11) {
        $0.append(HCIStatus.success.rawValue)
        $0.append(u16: handle.rawValue)
        $0.append(u64: 1 << 5 | 1 << 8)  // longer data packets, LE 2M PHY
      }
    case .setDataLength: setDataLength(link, parameters)
    case .setPHY: setPHY(link, parameters)
    default: read(command, station, link)
    }
  }

  private func update(_ link: PeripheralLink, _ parameters: Span<UInt8>) {
    guard let timing = linkParameters(parameters, at: 2) else {
      return status(.connectionUpdate, .invalidParameters)
    }
    link.parameters = timing
    status(.connectionUpdate)
    event(.connectionUpdateComplete, capacity: 9) {
      $0.append(HCIStatus.success.rawValue)
      $0.append(u16: link.handle.rawValue)
      $0.append(u16: timing.interval)
      $0.append(u16: timing.latency)
      $0.append(u16: timing.supervisionTimeout)
    }
  }

  private func setDataLength(_ link: PeripheralLink, _ parameters: Span<UInt8>) {
    let octets = parameters.u16(at: 2)
    let time = parameters.u16(at: 4)
    complete(.setDataLength, capacity: 2) { $0.append(u16: link.handle.rawValue) }
    event(.dataLengthChange, capacity: 10) {
      $0.append(u16: link.handle.rawValue)
      for _ in 0..<2 {
        $0.append(u16: min(octets, 251))
        $0.append(u16: min(time, 2120))
      }
    }
  }

  private func setPHY(_ link: PeripheralLink, _ parameters: Span<UInt8>) {
    // Bit 0 of All_PHYs: no wish for sending; then the peripheral's wish, 2M, decides. 1 is 1M, 2 is 2M.
    func chosen(_ hasNoWish: UInt8, _ wished: UInt8) -> UInt8 {
      hasNoWish != 0 || wished & 0x02 != 0 ? 2 : 1
    }
    link.phy = (
      chosen(parameters[2] & 1, parameters[3]), chosen(parameters[2] & 2, parameters[4])
    )
    status(.setPHY)
    event(.phyUpdateComplete, capacity: 5) {
      $0.append(HCIStatus.success.rawValue)
      $0.append(u16: link.handle.rawValue)
      $0.append(link.phy.transmit)
      $0.append(link.phy.receive)
    }
  }

  private func read(_ command: ControllerCommand, _ station: Station, _ link: PeripheralLink) {
    complete(command, capacity: 7) {
      $0.append(u16: link.handle.rawValue)
      switch command {
      case .readRSSI: $0.append(UInt8(bitPattern: station.peripheral.advertisement?.rssi ?? -55))
      case .readTransmitPowerLevel: $0.append(0)
      case .readPHY:
        $0.append(link.phy.transmit)
        $0.append(link.phy.receive)
      default:  // the channel map: all 37 data channels
        $0.append(u32: 0xFFFF_FFFF)
        $0.append(0x1F)
      }
    }
  }
}

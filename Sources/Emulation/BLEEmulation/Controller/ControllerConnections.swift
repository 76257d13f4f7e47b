import BLEStack
import BLEWire

/// Creating, changing and ending links. Core 5.4, Vol 4, Part E, 7.1.6, 7.8.12–21, 7.8.66.
extension VirtualController {
  func createConnection(_ parameters: Span<UInt8>, now: MonotonicTime) {
    initiate(
      .createConnection, filterPolicy: parameters[4], peerType: parameters[5],
      peer: parameters.address(at: 6, type: .public), ownType: parameters[12], parameters, scanAt: 0,
      timingAt: 13, now: now)
  }

  /// Connects with the timing of the first requested PHY.
  func extendedCreateConnection(_ parameters: Span<UInt8>, now: MonotonicTime) {
    guard parameters.count == 10 + 16 * (parameters[9] & 0x07).nonzeroBitCount else {
      return status(.extendedCreateConnection, .invalidParameters)
    }
    initiate(
      .extendedCreateConnection, filterPolicy: parameters[0], peerType: parameters[2],
      peer: parameters.address(at: 3, type: .public), ownType: parameters[1], parameters, scanAt: 10,
      timingAt: 14, now: now)
  }

  private func initiate(
    _ command: ControllerCommand, filterPolicy: UInt8, peerType: UInt8, peer: DeviceAddress,
    ownType: UInt8, _ parameters: Span<UInt8>, scanAt scanOffset: Int, timingAt offset: Int,
    now: MonotonicTime
  ) {
    guard filterPolicy <= 1, let type = AddressType(rawValue: peerType & 1),
      let timing = linkParameters(parameters, at: offset)
    else { return status(command, .invalidParameters) }
    guard state.initiation == nil || injected.goesOnWithConnects else {
      return status(command, .commandDisallowed)
    }
    let target = filterPolicy == 0 ? peer.with(type: type) : nil
    if let target, links.contains(where: { $0.peer == target }) {
      return status(command, .connectionAlreadyExists)
    }
    let wasListening = isListening
    state.initiation = Initiation(
      peer: target, ownAddress: ownAddress(ownType), parameters: timing,
      window: ListeningWindow(
        interval: max(4, parameters.u16(at: scanOffset)), length: parameters.u16(at: scanOffset + 2),
        start: now))
    if !wasListening { air.resumeAdvertising() }
    status(command)
  }

  /// Returns the address for an own address type.
  ///
  /// - Parameter type: an Own_Address_Type; 2 and 3 are treated as 0 and 1, because private addresses are not
  ///   supported.
  func ownAddress(_ type: UInt8) -> DeviceAddress {
    type & 1 == 0 ? configuration.address : state.randomAddress
  }

  /// Parses interval (minimum, maximum), latency and timeout. Uses the maximum interval, as many controllers
  /// do.
  ///
  /// - Returns: `nil` if a value is outside the ranges of Core 5.4, Vol 4, Part E, 7.8.12.
  private func linkParameters(_ bytes: Span<UInt8>, at offset: Int) -> LinkParameters? {
    let (least, most) = (bytes.u16(at: offset), bytes.u16(at: offset + 2))
    let (latency, timeout) = (bytes.u16(at: offset + 4), bytes.u16(at: offset + 6))
    guard least >= 6, least <= most, most <= 3200, latency <= 499, (10...3200).contains(timeout),
      // The timeout must exceed two intervals with latency: 10 ms · t > 2 · 1.25 ms · i · (1 + l).
      UInt32(timeout) * 4 > (1 + UInt32(latency)) * UInt32(most)
    else { return nil }
    return LinkParameters(interval: most, latency: latency, supervisionTimeout: timeout)
  }

  func cancelConnection() {
    guard state.initiation != nil else { return complete(.createConnectionCancel, .commandDisallowed) }
    if injected.goesOnWithConnects { return complete(.createConnectionCancel) }
    state.initiation = nil
    complete(.createConnectionCancel)
    connectionComplete(.unknownConnection, nil)
  }

  /// Called when a link is established, at either end.
  func connected(_ end: LinkEnd) {
    if end.role == .central { state.initiation = nil }
    end.allowedDataLength = air.configuration.pace == .air ? state.defaultDataLength : .maximum
    links.append(end)
    connectionComplete(.success, end)
    if end.role == .peripheral { endAdvertising(connectedBy: end) }
    // If the host has set a longer default, the controller requests longer packets itself. Core 5.4, Vol 6,
    // Part B, 4.5.10.
    if end.allowedDataLength != .minimum, air.configuration.pace == .air {
      end.link?.requestDataLength(end.allowedDataLength, from: end)
    }
  }

  /// Sends LE Connection Complete, or the enhanced event if the host has enabled it.
  private func connectionComplete(_ code: HCIStatus, _ end: LinkEnd?) {
    let peer = end?.peer ?? .any
    let timing = end?.link?.parameters
    let isEnhanced = state.mask.allows(.enhancedConnectionComplete)
    event(isEnhanced ? .enhancedConnectionComplete : .connectionComplete, capacity: 30) {
      $0.append(code.rawValue)
      $0.append(u16: end?.handle.rawValue ?? 0)
      $0.append(end?.role.rawValue ?? 0)
      $0.append(peer.type.rawValue)
      $0.append(peer)
      if isEnhanced { $0.append(zeros: 12) }  // no private addresses
      $0.append(u16: timing?.interval ?? 0)
      $0.append(u16: timing?.latency ?? 0)
      $0.append(u16: timing?.supervisionTimeout ?? 0)
      $0.append(0)  // central clock accuracy: 500 ppm
    }
  }

  // MARK: Commands for a link

  func executeOnLink(_ command: ControllerCommand, _ parameters: Span<UInt8>) {
    let handle = ConnectionHandle(parameters.u16(at: 0))
    guard let end = links.first(where: { $0.handle == handle }), let link = end.link else {
      return refuse(command, .unknownConnection)
    }
    switch command {
    case .disconnect:
      status(command)
      link.terminate(from: end, HCIStatus(rawValue: parameters[2]))
    case .connectionUpdate: update(link, end, parameters)
    case .readRemoteVersion:
      status(command)
      link.requestVersion(from: end)
    case .readRemoteFeatures:
      status(command)
      link.requestFeatures(from: end)
    case .setDataLength:
      complete(.setDataLength, capacity: 2) { $0.append(u16: handle.rawValue) }
      link.requestDataLength(
        DataLength(octets: parameters.u16(at: 2), time: parameters.u16(at: 4)), from: end)
    case .setPHY: setPHY(link, end, parameters)
    case .enableEncryption, .longTermKeyRequestReply, .longTermKeyRequestNegativeReply:
      executeEncryption(command, parameters, link, end)
    default: read(command, end, link)
    }
  }

  /// Changes a link's parameters. A peripheral can request a change only by L2CAP, because Connection
  /// Parameters Request is not supported.
  private func update(_ link: AirLink, _ end: LinkEnd, _ parameters: Span<UInt8>) {
    guard let timing = linkParameters(parameters, at: 2) else {
      return status(.connectionUpdate, .invalidParameters)
    }
    guard end.role == .central else { return status(.connectionUpdate, .unsupportedRemoteFeature) }
    status(.connectionUpdate)
    link.update(timing)
  }

  private func setPHY(_ link: AirLink, _ end: LinkEnd, _ parameters: Span<UInt8>) {
    // Bits 0 and 1 of All_PHYs: no preference for sending or receiving. The coded PHY is not supported.
    let wish = PHYWish(
      transmit: parameters[2] & 1 != 0 ? 3 : parameters[3] & 3,
      receive: parameters[2] & 2 != 0 ? 3 : parameters[4] & 3)
    guard wish.transmit != 0, wish.receive != 0 else { return status(.setPHY, .unsupportedFeature) }
    status(.setPHY)
    link.requestPHY(wish, from: end)
  }

  private func read(_ command: ControllerCommand, _ end: LinkEnd, _ link: AirLink) {
    complete(command, capacity: 7) {
      $0.append(u16: end.handle.rawValue)
      switch command {
      case .readRSSI: $0.append(UInt8(bitPattern: -55))
      case .readTransmitPowerLevel: $0.append(0)
      case .readPHY:
        $0.append(end.phy.rawValue)
        $0.append(link.other(end).phy.rawValue)
      default:  // the channel map: all 37 data channels
        $0.append(u32: 0xFFFF_FFFF)
        $0.append(0x1F)
      }
    }
  }
}

/// Sends the links' events to the host.
extension VirtualController: LinkOwner {
  func received(_ data: Span<UInt8>, _ boundary: ACLPacket.Boundary, on end: LinkEnd) {
    var offset = 0
    repeat {
      let next = min(data.count, offset + configuration.aclByteCount)
      post(.acl, capacity: ACLPacket.headerByteCount + next - offset) {
        ACLPacket(
          handle: end.handle, boundary: offset == 0 ? boundary : .continuation,
          data: data.extracting(offset..<next)
        ).encode(into: &$0)
      }
      offset = next
    } while offset < data.count
  }

  /// Sends Number Of Completed Packets. Core 5.4, Vol 4, Part E, 7.7.19.
  func acknowledged(on end: LinkEnd) {
    event(.numberOfCompletedPackets, capacity: 5) {
      $0.append(1)
      $0.append(u16: end.handle.rawValue)
      $0.append(u16: 1)
    }
  }

  func parametersChanged(on end: LinkEnd) {
    guard let timing = end.link?.parameters else { return }
    event(.connectionUpdateComplete, capacity: 9) {
      $0.append(HCIStatus.success.rawValue)
      $0.append(u16: end.handle.rawValue)
      $0.append(u16: timing.interval)
      $0.append(u16: timing.latency)
      $0.append(u16: timing.supervisionTimeout)
    }
  }

  func dataLengthChanged(on end: LinkEnd) {
    guard let other = end.other else { return }
    event(.dataLengthChange, capacity: 10) {
      $0.append(u16: end.handle.rawValue)
      for length in [end.dataLength, other.dataLength] {
        $0.append(u16: length.octets)
        $0.append(u16: length.time)
      }
    }
  }

  func phyChanged(on end: LinkEnd) {
    guard let other = end.other else { return }
    event(.phyUpdateComplete, capacity: 5) {
      $0.append(HCIStatus.success.rawValue)
      $0.append(u16: end.handle.rawValue)
      $0.append(end.phy.rawValue)
      $0.append(other.phy.rawValue)
    }
  }

  /// Reports the features of all emulated devices: encryption, longer data packets and LE 2M PHY.
  func featuresRead(on end: LinkEnd) {
    event(.readRemoteFeaturesComplete, capacity: 11) {
      $0.append(HCIStatus.success.rawValue)
      $0.append(u16: end.handle.rawValue)
      $0.append(u64: 1 << 0 | 1 << 5 | 1 << 8)
    }
  }

  func versionRead(on end: LinkEnd) {
    event(.readRemoteVersionComplete, capacity: 8) {
      $0.append(HCIStatus.success.rawValue)
      $0.append(u16: end.handle.rawValue)
      $0.append(0x09)  // Core 5.0
      $0.append(u16: 0xFFFF)
      $0.append(u16: 0)
    }
  }

  func ended(_ end: LinkEnd, _ reason: HCIStatus) {
    links.removeAll { $0 === end }
    event(.disconnectionComplete, capacity: 4) {
      DisconnectionComplete(status: .success, handle: end.handle, reason: reason).encode(into: &$0)
    }
    if isListening { air.resumeAdvertising() }
  }
}

extension HCIStatus {
  static let unsupportedRemoteFeature = HCIStatus(rawValue: 0x1A)
}

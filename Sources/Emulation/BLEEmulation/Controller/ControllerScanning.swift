import BLEWire

/// Scanning: parameters, enable, accept list, and the reports. Core 5.4, Vol 4, Part E, 7.8.10–17, 7.8.64–65.
extension VirtualController {
  /// Whether the controller receives advertisements, as a scanner or an initiator.
  var isListening: Bool { state.scan.isEnabled || state.initiation != nil }

  func setScanParameters(_ command: ControllerCommand, _ parameters: Span<UInt8>) {
    let isExtended = command == .setExtendedScanParameters
    // Extended: own address type, policy, PHYs, then type, interval and window of each PHY.
    // Legacy: type, interval, window, own address type, policy.
    let kind = ScanKind(rawValue: parameters[isExtended ? 3 : 0])
    let policy = parameters[isExtended ? 1 : 6]
    let interval = parameters.u16(at: isExtended ? 4 : 1)
    let window = parameters.u16(at: isExtended ? 6 : 3)
    guard let kind, policy <= 3, interval >= 4, window >= 4, window <= interval,
      !isExtended || parameters.count == 3 + 5 * (parameters[2] & 0x05).nonzeroBitCount
    else { return complete(command, .invalidParameters) }
    guard !state.scan.isEnabled else { return complete(command, .commandDisallowed) }
    state.scan.kind = kind
    state.scan.window = ListeningWindow(interval: interval, length: window)
    // Policies 2 and 3 only add directed advertisements, which no peripheral here sends.
    state.scan.acceptsListedOnly = policy & 1 != 0
    complete(command)
  }

  func setScanEnable(_ command: ControllerCommand, _ parameters: Span<UInt8>, now: MonotonicTime) {
    // The extended command has a third filter, "reset each scan period". Without periods it equals the
    // second.
    guard parameters[0] <= 1, let duplicates = DuplicateFilter(rawValue: min(parameters[1], 1)) else {
      return complete(command, .invalidParameters)
    }
    let wasListening = isListening
    state.scan.isEnabled = parameters[0] == 1
    state.scan.duplicates = duplicates
    state.scan.reported.removeAll()
    state.scan.window.start = now
    if !wasListening, isListening { air.resumeAdvertising() }
    complete(command)
  }

  func changeAcceptList(_ command: ControllerCommand, _ parameters: Span<UInt8>) {
    if command == .readAcceptListSize {
      return complete(command, capacity: 1) { $0.append(UInt8(configuration.acceptListCapacity)) }
    }
    // Refuse while a scan or a connection attempt uses the list. Core 5.4, Vol 4, Part E, 7.8.15.
    let isInUse =
      (state.scan.isEnabled && state.scan.acceptsListedOnly)
      || (state.initiation.map { $0.peer == nil } ?? false)
    guard !isInUse else { return complete(command, .commandDisallowed) }
    if command == .clearAcceptList {
      state.acceptList.removeAll()
      return complete(command)
    }
    guard let type = AddressType(rawValue: parameters[0]) else {
      return complete(command, .invalidParameters)
    }
    let address = parameters.address(at: 1, type: type)
    if command == .removeFromAcceptList {
      state.acceptList.removeAll { $0 == address }
    } else if !state.acceptList.contains(address) {
      guard state.acceptList.count < configuration.acceptListCapacity else {
        return complete(command, .memoryCapacityExceeded)
      }
      state.acceptList.append(address)
    }
    complete(command)
  }

  // MARK: Advertisements

  /// The host's pending connection attempt for this advertiser, if the radio is listening now.
  func initiation(for advertisement: Advertisement, now: MonotonicTime) -> Initiation? {
    guard let initiation = state.initiation, advertisement.kind == .connectable,
      initiation.peer.map({ $0 == advertisement.address })
        ?? (!injected.overlooksAcceptList && state.acceptList.contains(advertisement.address))
    else { return nil }
    return isOpen(initiation.window, now) ? initiation : nil
  }

  private func isOpen(_ window: ListeningWindow, _ now: MonotonicTime) -> Bool {
    air.configuration.pace == .immediate || window.isOpen(at: now)
  }

  /// Reports an advertisement that the radio receives.
  func hear(_ advertisement: Advertisement, now: MonotonicTime) {
    guard state.scan.isEnabled, isOpen(state.scan.window, now) else { return }
    if state.scan.acceptsListedOnly, !state.acceptList.contains(advertisement.address) { return }
    if state.scan.duplicates == .reportOnce,
      !state.scan.reported.insert(advertisement.address).inserted
    {
      return
    }
    report(advertisement, .advertisement, advertisement.data)
    if state.scan.kind == .active, advertisement.kind != .nonConnectable {
      report(advertisement, .scanResponse, advertisement.scanResponse)
    }
  }

  private enum ReportedPDU { case advertisement, scanResponse }

  private func report(_ advertisement: Advertisement, _ pdu: ReportedPDU, _ data: [UInt8]) {
    let address = advertisement.address
    if state.family == .extended {
      event(.extendedAdvertisingReport, capacity: 25 + data.count) {
        $0.append(1)
        $0.append(u16: Self.extendedType(advertisement.kind, pdu))
        $0.append(address.type.rawValue)
        $0.append(address)
        $0.append(1)  // primary PHY: LE 1M
        $0.append(0)  // secondary PHY: none, a legacy PDU
        $0.append(0xFF)  // no advertising set
        $0.append(0x7F)  // power not known
        $0.append(UInt8(bitPattern: advertisement.rssi))
        $0.append(u16: 0)  // not periodic
        $0.append(zeros: 7)  // not directed
        $0.append(UInt8(data.count))
        $0.append(data.span)
      }
    } else {
      event(.advertisingReport, capacity: 11 + data.count) {
        $0.append(1)
        $0.append(pdu == .scanResponse ? 4 : advertisement.kind.rawValue)
        $0.append(address.type.rawValue)
        $0.append(address)
        $0.append(UInt8(data.count))
        $0.append(data.span)
        $0.append(UInt8(bitPattern: advertisement.rssi))
      }
    }
  }

  /// Event_Type of the extended report for legacy PDUs. Core 5.4, Vol 4, Part E, 7.7.65.13, table 7.1.
  private static func extendedType(_ kind: Advertisement.Kind, _ pdu: ReportedPDU) -> UInt16 {
    switch (kind, pdu) {
    case (.connectable, .advertisement): 0x0013
    case (.connectable, .scanResponse): 0x001B
    case (.scannable, .advertisement): 0x0012
    case (.scannable, .scanResponse): 0x001A
    case (.nonConnectable, _): 0x0010
    }
  }
}

extension HCIStatus {
  static let connectionAlreadyExists = HCIStatus(rawValue: 0x0B)
}

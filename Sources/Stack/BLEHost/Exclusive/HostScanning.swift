import BLEStack
public import BLEWire

/// Parameters of a scan.
struct HostScan {
  let kind: ScanKind
  let timing: ScanTiming
  let duplicates: DuplicateFilter
}

/// Scanning, and the addresses that our own host uses to scan and connect.
extension HostAdapter {
  /// Scans with a non-resolvable private address that changes with each scan, so that scan requests do not
  /// identify this host. Core 5.4, Vol 3, Part C, 10.7.
  public func hideInScans() { hidesInScans = true }

  public func startScan(
    _ kind: ScanKind, timing: ScanTiming, duplicates: DuplicateFilter,
    _ sink: @escaping ReportSink
  ) async throws(HostError) {
    guard reportSink == nil else { throw .scanBusy(holder: "this program") }
    reportSink = sink
    let scan = HostScan(kind: kind, timing: timing, duplicates: duplicates)
    do throws(HostError) {
      try await beginOnceUp(scan)
      self.scan = scan
    } catch {
      reportSink = nil
      throw error
    }
  }

  /// Starts a scan as soon as no reset is in progress, and again if a reset interrupts it.
  private func beginOnceUp(_ scan: HostScan) async throws(HostError) {
    while true {
      try await restarted()
      do throws(HostError) { return try await begin(scan) } catch {
        guard error == .controllerReset else { throw error }
      }
    }
  }

  func begin(_ scan: HostScan) async throws(HostError) {
    var ownType = address.type
    if hidesInScans {
      let own = address
      try await sendNow(
        LESetRandomAddress(Self.random { .nonResolvablePrivate($0, differingFrom: own) }))
      ownType = .random
    }
    if controller.usesExtendedCommands {
      try await sendNow(LESetExtendedScanParameters(kind: scan.kind, timing: scan.timing, ownType: ownType))
      try await sendNow(LESetExtendedScanEnable(scan.duplicates))
    } else {
      try await sendNow(LESetScanParameters(kind: scan.kind, timing: scan.timing, ownType: ownType))
      try await sendNow(LESetScanEnable(scan.duplicates))
    }
  }

  public func stopScan() async throws(HostError) {
    guard reportSink != nil, !isScanEnding else { return }
    // Until the controller confirms, the sink still receives reports.
    isScanEnding = true
    defer { (reportSink, scan, isScanEnding) = (nil, nil, false) }
    if controller.usesExtendedCommands {
      try await command(LESetExtendedScanEnable(nil))
    } else {
      try await command(LESetScanEnable(nil))
    }
    // Connection attempts need the previous address.
    if hidesInScans, let ownAddress { try await command(LESetRandomAddress(ownAddress)) }
  }

  public var unfinishedReports: Int { withHost { $0.unfinishedReports } }

  func stopScanQuietly() async {
    do throws(HostError) { try await stopScan() } catch {
      // Ignored: the controller is released right after this, and the next program that opens it resets it.
    }
  }

  // MARK: Addresses

  /// Address that this host uses to scan and connect: the controller's public address, or a random static
  /// one.
  public var address: DeviceAddress { ownAddress ?? controller.address }

  /// Generates a static address for a controller without a public one. Core 5.4, Vol 6, Part B, 1.3.2.1.
  func takeRandomAddress() -> DeviceAddress {
    let address = Self.random { DeviceAddress.randomStatic($0) }
    ownAddress = address
    return address
  }

  private static func random(_ make: (UInt64) -> DeviceAddress?) -> DeviceAddress {
    while true {
      // One random value in 2⁴⁵ is invalid.
      if let address = make(UInt64.random(in: 0 ... .max)) { return address }
    }
  }

  /// Switches to this static address, unless the controller has a public one.
  func goOn(as known: DeviceAddress) async throws(HostError) {
    guard let own = ownAddress, known != own, known.type == .random else { return }
    try await command(LESetRandomAddress(known))
    ownAddress = known
  }
}

import BLEWire

/// Joins the packets of extended advertising: ADV_EXT_IND, the AUX_ADV_IND that it points to, and subsequent
/// AUX_CHAIN_INDs.
///
/// A single packet is often incomplete: the address may be only in the first packet, and the data in later
/// packets. Each packet identifies its set and data (ADI), and has the channel, time and PHY of the next
/// packet (AuxPtr). Core 5.4, Vol 6, Part B, 2.3.4 and 4.4.2.
struct AdvertisingChains {
  /// Maximum number of announced packets for which to wait.
  static let limit = Limit(
    64, "pending packets of extended advertising in an air log", by: .file,
    whenFull: "the oldest is dropped",
    counted: "`incompleteAdvertisements` of `log stats`")
  /// Maximum number of periodic trains known by their access address.
  static let trains = Limit(
    64, "periodic trains of an air log", by: .file, whenFull: "the oldest is dropped",
    counted: "as a connection of unknown devices")

  /// Tolerance of a time in nanoseconds, to which the packet's duration is added: some sniffers report the
  /// start of a packet, others its end.
  private static let precision: Int64 = 1_000_000
  /// Delay after which a packet counts as missed; the longest packet takes 17 ms.
  private static let tolerance = TimeSpan(nanoseconds: 20_000_000)
  /// Maximum difference between the times in two announcements of the same packet.
  private static let agreement = TimeSpan(nanoseconds: 3_000_000)
  /// Maximum time from a scan request to its response. A response follows 150 µs after the end of its
  /// request.
  private static let responseTime = TimeSpan(nanoseconds: 3_000_000)

  /// A packet that was announced.
  private struct Expected {
    var report: ExtendedReport
    var channel: UInt8
    var phy: LEPHY?
    /// Time of the packet that announced this packet.
    var announced: ReceiveTime
    /// Latest start of the packet.
    var time: ReceiveTime
    /// Whether parts of the advertisement were already reported.
    var isContinuation: Bool

    /// Maximum error of the time in nanoseconds, caused by the clocks and the units of the announcement.
    var uncertainty: Int64 { (time - announced).nanoseconds / 1_000 + 300_000 }
    var deadline: ReceiveTime { time + AdvertisingChains.tolerance }
  }

  private struct ScanRequest {
    var advertiser: DeviceAddress
    var channel: UInt8?
    var time: ReceiveTime
  }

  /// Role of a packet in its advertisement.
  enum Role: Hashable {
    case pointer
    case advertisement, continuation, scanResponse
    /// Part of an advertisement whose other packets were missed.
    case stray
  }

  private var expected: [Expected] = []
  private var request: ScanRequest?
  private var periodic: [(accessAddress: UInt32, crcStart: UInt32)] = []
  /// Number of advertisements with a missed packet.
  private(set) var incomplete = 0
  /// Number of advertisements that were reassembled from more than one packet.
  private(set) var joined = 0

  /// Number of advertisements with a packet that has not arrived yet.
  var waiting: Int { expected.count }
  /// The earliest time at which a waiting advertisement counts as incomplete.
  private(set) var deadline: ReceiveTime?

  /// Returns the CRC initialization value of a periodic train.
  func crcStart(ofTrain accessAddress: UInt32) -> UInt32? {
    periodic.first { $0.accessAddress == accessAddress }?.crcStart
  }

  mutating func hear(scanRequest pdu: Span<UInt8>, on channel: UInt8?, at time: ReceiveTime) {
    guard pdu.count >= 14 else { return }
    let advertiser = pdu.address(at: 8, type: pdu[0] & 0x80 == 0 ? .public : .random)
    request = ScanRequest(advertiser: advertiser, channel: channel, time: time)
  }

  /// Stops waiting for packets that were due before `time`.
  ///
  /// - Parameter body: receives partly reported advertisements, to report them as truncated.
  mutating func giveUp(
    before time: ReceiveTime?, _ body: (_ report: ExtendedReport, _ deadline: ReceiveTime) -> Void
  ) {
    guard let deadline, time.map({ deadline < $0 }) ?? true else { return }
    while let place = expected.firstIndex(where: { entry in time.map { entry.deadline < $0 } ?? true }) {
      giveUp(at: place, body)
    }
    noteDeadline()
  }

  private mutating func giveUp(at place: Int, _ body: (ExtendedReport, ReceiveTime) -> Void) {
    let lost = expected.remove(at: place)
    incomplete += 1
    if lost.isContinuation { body(lost.report, lost.deadline) }
  }

  private mutating func noteDeadline() { deadline = expected.map(\.deadline).min() }

  /// Handles the next packet.
  ///
  /// - Parameters:
  ///   - byteCount: size of the PDU in bytes.
  ///   - given: receives incomplete advertisements, as in `giveUp`.
  ///   - body: receives the report of the packet, the packet's data, and whether more data follows.
  /// - Returns: the role of the packet.
  mutating func take(
    _ pdu: ExtendedPDU, _ packet: AirPacket, byteCount: Int, at time: ReceiveTime,
    given: (_ report: ExtendedReport, _ deadline: ReceiveTime) -> Void,
    _ body: (_ report: ExtendedReport, _ data: Range<Int>, _ hasMore: Bool) -> Void
  ) -> Role {
    if let train = pdu.train, crcStart(ofTrain: train.accessAddress) == nil {
      if periodic.count == Self.trains.count { periodic.removeFirst() }
      periodic.append(train)
    }
    defer { noteDeadline() }
    let isPrimary = packet.channel.map { $0 >= 37 }
    let pointsOnly = pdu.pointer != nil && pdu.data.isEmpty
    if isPrimary ?? pointsOnly { return takePrimary(pdu, packet, at: time, given, body) }
    if let response = response(pdu, packet, at: time) {
      proceed(response, pdu, packet, at: time, isContinuation: false, body)
      return .scanResponse
    }
    if let place = place(of: pdu, packet, byteCount, at: time) {
      let former = expected.remove(at: place)
      var report = former.report
      if !former.isContinuation {
        report.mode = pdu.mode
        report.advertiser = report.advertiser ?? pdu.advertiser
        report.target = report.target ?? pdu.target
      }
      report.power = pdu.power ?? report.power
      proceed(report, pdu, packet, at: time, isContinuation: true, body)
      return former.isContinuation ? .continuation : .advertisement
    }
    guard let advertiser = pdu.advertiser else {
      // An advertisement is counted once: at its last packet, or when a waiting packet counts as missed.
      let isCounted = pdu.pointer != nil || expected.contains { $0.report.identifier == pdu.identifier }
      if !isCounted { incomplete += 1 }
      return .stray
    }
    // Some programs write a wrong number for an advertising channel.
    if pointsOnly { return takePrimary(pdu, packet, at: time, given, body) }
    var report = report(pdu, packet)
    report.advertiser = advertiser
    proceed(report, pdu, packet, at: time, isContinuation: false, body)
    return .advertisement
  }

  private func report(_ pdu: ExtendedPDU, _ packet: AirPacket) -> ExtendedReport {
    ExtendedReport(
      mode: pdu.mode, advertiser: pdu.advertiser, target: pdu.target, identifier: pdu.identifier,
      power: pdu.power, primaryPHY: packet.phy == .leCoded ? 3 : 1)
  }

  private mutating func takePrimary(
    _ pdu: ExtendedPDU, _ packet: AirPacket, at time: ReceiveTime,
    _ given: (ExtendedReport, ReceiveTime) -> Void,
    _ body: (ExtendedReport, Range<Int>, Bool) -> Void
  ) -> Role {
    let report = report(pdu, packet)
    guard let pointer = pdu.pointer else {
      guard pdu.advertiser != nil else { return .stray }
      body(report, pdu.data, false)
      return .advertisement
    }
    let start = time + pointer.offset + pointer.unit
    // A set announces the same packet on each advertising channel. A later event replaces waiting packets of
    // the previous event.
    while let place = expected.firstIndex(where: { isSameSet($0.report, report) }) {
      let former = expected[place]
      guard
        former.isContinuation
          || (former.time - start).nanoseconds.magnitude > Self.agreement.nanoseconds.magnitude
          || former.report.identifier != report.identifier
      else {
        expected.remove(at: place)
        break
      }
      giveUp(at: place, given)
    }
    wait(for: pointer, report, packet, at: time, isContinuation: false, given)
    return .pointer
  }

  private func isSameSet(_ a: ExtendedReport, _ b: ExtendedReport) -> Bool {
    a.advertiser == b.advertiser && !a.isScanResponse
      && a.identifier.map { $0 >> 12 } == b.identifier.map { $0 >> 12 }
  }

  private mutating func wait(
    for pointer: ExtendedPDU.Pointer, _ report: ExtendedReport, _ packet: AirPacket, at time: ReceiveTime,
    isContinuation: Bool, _ given: (ExtendedReport, ReceiveTime) -> Void
  ) {
    if expected.count == Self.limit.count { giveUp(at: 0, given) }
    expected.append(
      Expected(
        report: report, channel: pointer.channel, phy: pointer.phy, announced: time,
        time: time + pointer.offset + pointer.unit, isContinuation: isContinuation))
  }

  /// Reports a packet, and waits for the packet to which it points.
  private mutating func proceed(
    _ report: ExtendedReport, _ pdu: ExtendedPDU, _ packet: AirPacket, at time: ReceiveTime,
    isContinuation: Bool,
    _ body: (ExtendedReport, Range<Int>, Bool) -> Void
  ) {
    body(report, pdu.data, pdu.pointer != nil)
    if let pointer = pdu.pointer {
      wait(for: pointer, report, packet, at: time, isContinuation: true) { _, _ in }
    } else if isContinuation {
      joined += 1
    }
  }

  /// Returns the index of the announced packet with the same set and data, the same channel, and the nearest
  /// time.
  private func place(
    of pdu: ExtendedPDU, _ packet: AirPacket, _ byteCount: Int, at time: ReceiveTime
  ) -> Int? {
    let byteTime: Int64 = packet.phy == .le2M ? 4_000 : packet.phy == .leCoded ? 64_000 : 8_000
    let latest = Self.precision + Int64(byteCount + 8) * byteTime
    var best: (place: Int, distance: UInt64)?
    for (place, entry) in expected.enumerated() {
      let late = (time - entry.time).nanoseconds
      guard time >= entry.announced, -Self.precision - entry.uncertainty...latest + entry.uncertainty ~= late,
        packet.channel ?? entry.channel == entry.channel,
        pdu.identifier ?? entry.report.identifier == entry.report.identifier,
        pdu.advertiser ?? entry.report.advertiser == entry.report.advertiser
          || entry.report.advertiser == nil,
        !(entry.isContinuation && pdu.advertiser != nil)
      else { continue }
      // Many programs do not record the PHY.
      let isOnPHY = entry.phy == nil || packet.phy == entry.phy
      let distance = late.magnitude + (isOnPHY ? 0 : 1_000_000)
      if best.map({ distance < $0.distance }) ?? true { best = (place, distance) }
    }
    return best?.place
  }

  /// Starts the report of a scan response: AUX_SCAN_RSP immediately follows AUX_SCAN_REQ on the same channel.
  private mutating func response(_ pdu: ExtendedPDU, _ packet: AirPacket, at time: ReceiveTime)
    -> ExtendedReport?
  {
    guard let asked = request, time >= asked.time, time - asked.time <= Self.responseTime,
      packet.channel == asked.channel, pdu.advertiser ?? asked.advertiser == asked.advertiser, pdu.mode == 0
    else { return nil }
    request = nil
    var report = report(pdu, packet)
    report.mode = 0b10
    report.isScanResponse = true
    report.advertiser = asked.advertiser
    return report
  }
}

extension AirPDU {
  /// Returns the PDU type for a role in extended advertising, or `type` if the role does not determine a
  /// type.
  static func extended(_ role: AdvertisingChains.Role, _ type: AirPDU) -> AirPDU {
    switch role {
    case .continuation: .chain
    case .scanResponse: .scanResponse
    case .pointer, .advertisement, .stray: type
    }
  }
}

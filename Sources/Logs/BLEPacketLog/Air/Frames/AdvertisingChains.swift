import BLEWire

/// Joins the packets of extended advertising: ADV_EXT_IND, the AUX_ADV_IND that it points to, and the AUX_CHAIN_IND after that.
///
/// Most of them lack what the others have: the address may be in the first alone, the data are in the others. Each names its
/// set and data (ADI), and channel, time and PHY of the next (AuxPtr). Core 5.4, Vol 6, Part B, 2.3.4 and 4.4.2.
struct AdvertisingChains {
  /// Announced packets that are waited for.
  static let limit = Limit(
    64, "packets of extended advertising that a log of the air waits for", by: .file,
    whenFull: "the oldest goes",
    counted: "`incompleteAdvertisements` of `log stats`")
  /// Periodic trains that are known by their access address.
  static let trains = Limit(
    64, "periodic trains of a log of the air", by: .file, whenFull: "the oldest goes",
    counted: "as a connection of unknown devices")

  /// How far off a time may be, beside the packet's duration: sniffers give the time of its start or of its end.
  private static let precision: Int64 = 1_000_000
  /// When a packet is given up: the longest takes 17 ms.
  private static let tolerance = TimeSpan(nanoseconds: 20_000_000)
  /// Two packets that announce the same one agree within so much.
  private static let agreement = TimeSpan(nanoseconds: 3_000_000)
  /// A scan response follows 150 µs after the end of its request.
  private static let responseTime = TimeSpan(nanoseconds: 3_000_000)

  /// A packet that was announced.
  private struct Expected {
    var report: ExtendedReport
    var channel: UInt8
    var phy: LEPHY?
    /// When the packet that announces it was heard, and when it may start at the latest.
    var announced: ReceiveTime
    var time: ReceiveTime
    /// Reports of the advertisement were given already.
    var isContinuation: Bool

    /// Of the clocks, and of the units that the time is announced in.
    var uncertainty: Int64 { (time - announced).nanoseconds / 1_000 + 300_000 }
    var deadline: ReceiveTime { time + AdvertisingChains.tolerance }
  }

  private struct ScanRequest {
    var advertiser: DeviceAddress
    var channel: UInt8?
    var time: ReceiveTime
  }

  /// What a packet is, and what it adds to its advertisement.
  enum Role: Hashable {
    case pointer
    case advertisement, continuation, scanResponse
    /// Part of an advertisement of which the rest was not heard.
    case stray
  }

  private var expected: [Expected] = []
  private var request: ScanRequest?
  private var periodic: [(accessAddress: UInt32, crcStart: UInt32)] = []
  /// Advertisements of which a packet was not heard.
  private(set) var incomplete = 0
  /// Advertisements that were heard to their end, in more than one packet.
  private(set) var joined = 0

  /// Advertisements that still lack a packet.
  var waiting: Int { expected.count }
  /// The first time at which one of them is given up.
  private(set) var deadline: ReceiveTime?

  /// The start of the CRC of a periodic train.
  func crcStart(ofTrain accessAddress: UInt32) -> UInt32? {
    periodic.first { $0.accessAddress == accessAddress }?.crcStart
  }

  mutating func hear(scanRequest pdu: Span<UInt8>, on channel: UInt8?, at time: ReceiveTime) {
    guard pdu.count >= 14 else { return }
    let advertiser = pdu.address(at: 8, type: pdu[0] & 0x80 == 0 ? .public : .random)
    request = ScanRequest(advertiser: advertiser, channel: channel, time: time)
  }

  /// Gives up what should have been heard before `time`.
  ///
  /// - Parameter body: receives advertisements of which parts were reported, to report that no more comes.
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

  /// Takes the next packet.
  ///
  /// - Parameters:
  ///   - byteCount: of the PDU.
  ///   - given: receives an advertisement that ends before, as `giveUp` has it.
  ///   - body: receives the report that the packet gives, its data, and whether more of it follows.
  /// - Returns: what the packet is.
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
      // Once for each advertisement: at its last packet, unless it is counted when another one is given up.
      let isCounted = pdu.pointer != nil || expected.contains { $0.report.identifier == pdu.identifier }
      if !isCounted { incomplete += 1 }
      return .stray
    }
    // A program may have given an advertising channel another number.
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
    // The same set announces one packet on each advertising channel; a later event ends what is left of the one before.
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

  /// Gives the report of a packet, and waits for the one that it points to.
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

  /// The announced packet that this one is: of the same set and data, on that channel, nearest to its time.
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
      // Many programs do not tell the PHY.
      let isOnPHY = entry.phy == nil || packet.phy == entry.phy
      let distance = late.magnitude + (isOnPHY ? 0 : 1_000_000)
      if best.map({ distance < $0.distance }) ?? true { best = (place, distance) }
    }
    return best?.place
  }

  /// The report that begins with a scan response: AUX_SCAN_RSP follows AUX_SCAN_REQ at once, on its channel.
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
  /// The name of a packet of extended advertising by its role; `type` if that says no more.
  static func extended(_ role: AdvertisingChains.Role, _ type: AirPDU) -> AirPDU {
    switch role {
    case .continuation: .chain
    case .scanResponse: .scanResponse
    case .pointer, .advertisement, .stray: type
    }
  }
}

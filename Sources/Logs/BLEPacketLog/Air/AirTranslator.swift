import BLEStack
import BLEWire

/// Translates air packets to the HCI packets that the central's controller and host would have exchanged.
///
/// Advertising PDUs become advertising reports, CONNECT_IND becomes a connection event, and data become ACL
/// packets in both directions. Each air packet gives at least one record. If no HCI packet expresses an air
/// packet, its record has no type and contains the PDU, decrypted if possible. All records of an air packet
/// have the packet's index and time, and its metadata in `PacketRecordHeader.air`.
struct AirTranslator: ~Copyable {
  /// Maximum number of connections followed at the same time.
  static let connections = Limit(
    64, "connections of an air log that are tracked at once", by: .file,
    whenFull: "the one silent for longest is dropped and reported", counted: "`links` of `log stats`")
  /// Maximum number of pairings for which the passkey is searched.
  static let passkeySearches = Limit(
    16, "pairings of an air log whose passkey is searched for", by: .file,
    whenFull: "later ones give no key, except Just Works", counted: "`encryption` of `log stats`"
  )

  var report = AirReport()
  private var keyring: AirKeyring
  private var chains = AdvertisingChains()
  private var live: [UInt32: AirConnection] = [:]
  /// The connection of the last packet.
  private var last: AirConnection?
  /// The earliest supervision timeout of any link.
  private var nextDeadline: ReceiveTime?
  private var nextHandle: UInt16 = 0
  private var searches: Int
  private var plain: [UInt8] = []
  private var output = RecordOutput()

  init(_ keys: [AirKey], passkeySearches searches: Int) {
    keyring = AirKeyring(keys)
    self.searches = searches
  }

  /// Connections ordered by handle, so that the same log always gives the same records.
  private var inOrder: [AirConnection] {
    live.values.sorted { $0.handle.rawValue < $1.handle.rawValue }
  }

  /// Translates the next frame, and passes its records to `body`.
  mutating func take(
    _ record: borrowing PacketRecord, _ linkType: AirLinkType, _ body: (borrowing PacketRecord) -> Void
  ) {
    loseLinks(at: record.header, body)
    giveUpAdvertisements(before: record.header, body)
    output.header = record.header
    let frame: AirFrame
    do throws(WireError) { frame = try AirFrame(linkType, record.packet) } catch {
      report.unreadable += 1
      return output.note(record.packet, AirPacket(linkType), body)
    }
    report.packets += 1
    var packet = frame.packet
    if frame.isAdvertising {
      takeAdvertising(frame, &packet, body)
    } else if chains.crcStart(ofTrain: packet.accessAddress) != nil {
      takePeriodic(frame, &packet, body)
    } else {
      takeData(frame, &packet, body)
    }
    report.kinds[packet.pdu, default: 0] += 1
    if packet.crc == .bad { report.badCRC += 1 }
    if packet.isRetransmission { report.retransmissions += 1 }
    switch packet.protection {
    case .clear: break
    case .decrypted: report.decrypted += 1
    case .encrypted: report.encrypted += 1
    }
  }

  /// Passes the records that are due at the end of the log to `body`.
  mutating func end(_ body: (borrowing PacketRecord) -> Void) { giveUpAdvertisements(before: nil, body) }

  /// Returns the report, including connections that are still up.
  mutating func finish() -> AirReport {
    var report = report
    for connection in inOrder {
      report.add(connection.finish())
    }
    report.incompleteAdvertisements = chains.incomplete + chains.waiting
    report.joinedAdvertisements = chains.joined
    report.keysLearnt = keyring.learntCount
    report.keysForgotten = keyring.forgotten
    return report
  }

  // MARK: Advertising

  private mutating func takeAdvertising(
    _ frame: borrowing AirFrame, _ packet: inout AirPacket, _ body: (borrowing PacketRecord) -> Void
  ) {
    let pdu = frame.pdu
    let isPrimary = packet.accessAddress == AirFrame.advertisingAccessAddress && (packet.channel ?? 37) >= 37
    packet.pdu = AirPDU(isPrimary ? .advertising : .auxiliary, pdu[0] & 0x0F)
    if packet.crc == .unknown, packet.accessAddress == AirFrame.advertisingAccessAddress {
      packet.crc = check(frame, AirCRC.advertising)
    }
    guard packet.crc != .bad else { return output.note(pdu, packet, body) }
    if pdu[0] & 0x0F == 0x05, let start = ConnectIndication(pdu) {
      output.note(pdu, packet, body)
      return connect(start, packet, body)
    }
    if let report = LegacyReport(pdu) {
      return output.event(packet, body) { report.encode(pdu, rssi: packet.rssi, into: &$0) }
    }
    if let extended = ExtendedPDU(pdu) { return takeExtended(extended, pdu, &packet, body) }
    if pdu[0] & 0x0F == 0x03, !isPrimary {
      chains.hear(scanRequest: pdu, on: packet.channel, at: output.header.time)
    }
    output.note(pdu, packet, body)
  }

  /// Reports a packet of extended advertising, or stores the packet until further packets of the
  /// advertisement arrive.
  private mutating func takeExtended(
    _ extended: ExtendedPDU, _ pdu: Span<UInt8>, _ packet: inout AirPacket,
    _ body: (borrowing PacketRecord) -> Void
  ) {
    var (found, lost): (ExtendedReport?, [ExtendedReport]) = (nil, [])
    var hasMore = false
    let role = chains.take(
      extended, packet, byteCount: pdu.count, at: output.header.time,
      given: { report, _ in lost.append(report) }
    ) {
      (found, hasMore) = ($0, $2)
    }
    for report in lost { tellTruncated(report, body) }
    packet.pdu = AirPDU.extended(role, packet.pdu)
    guard let found else { return output.note(pdu, packet, body) }
    let heard = packet
    var rest = extended.data
    repeat {
      let piece = rest.prefix(ExtendedReport.maximumByteCount)
      rest = rest.dropFirst(piece.count)
      output.event(packet, body) {
        found.encode(
          pdu.extracting(piece.startIndex..<piece.endIndex), rest.isEmpty && !hasMore ? .complete : .more,
          heard, into: &$0)
      }
    } while !rest.isEmpty
  }

  /// Reports an advertisement as truncated because its next packet was missed.
  private mutating func tellTruncated(_ lost: ExtendedReport, _ body: (borrowing PacketRecord) -> Void) {
    let (packet, nothing) = (AirPacket(.bare), [UInt8]())
    output.event(nil, body) { lost.encode(nothing.span, .truncated, packet, into: &$0) }
  }

  /// Gives up advertisements with an overdue packet; at the end of the log, gives up all advertisements.
  private mutating func giveUpAdvertisements(
    before header: PacketRecordHeader?, _ body: (borrowing PacketRecord) -> Void
  ) {
    var lost: [(ExtendedReport, ReceiveTime)] = []
    chains.giveUp(before: header?.time) { lost.append(($0, $1)) }
    for (report, deadline) in lost {
      if let header { output.header = header }
      output.header.time = header == nil ? output.header.time : deadline
      tellTruncated(report, body)
    }
  }

  /// Handles a packet of a periodic train. Core 5.4, Vol 6, Part B, 4.4.2.12.
  private mutating func takePeriodic(
    _ frame: borrowing AirFrame, _ packet: inout AirPacket, _ body: (borrowing PacketRecord) -> Void
  ) {
    packet.pdu = .periodic
    packet.direction = .unknown
    if packet.crc == .unknown { packet.crc = check(frame, chains.crcStart(ofTrain: packet.accessAddress)) }
    output.note(frame.pdu, packet, body)
  }

  private func check(_ frame: borrowing AirFrame, _ start: UInt32?) -> AirPacket.Check {
    guard let start, let sent = frame.sentCRC, sent != 0 else { return .unknown }
    return AirCRC.of(frame.pdu, start: start) == sent ? .good : .bad
  }

  // MARK: Connections

  private mutating func connect(
    _ start: ConnectIndication, _ packet: AirPacket, _ body: (borrowing PacketRecord) -> Void
  ) {
    // If a device connects again, its previous link is lost.
    for connection in inOrder
    where connection.accessAddress == start.accessAddress
      || connection.link.map({
        $0.central.bits == start.central.bits && $0.peripheral.bits == start.peripheral.bits
      }) ?? false
    {
      lose(connection, body)
      remove(connection)
    }
    let connection = add(start.accessAddress, start, body)
    output.event(packet, body) { output in
      HCIEvents.connectionComplete(connection.handle, start.peripheral, start.parameters, into: &output)
    }
  }

  private mutating func add(
    _ accessAddress: UInt32, _ start: ConnectIndication?, _ body: (borrowing PacketRecord) -> Void
  ) -> AirConnection {
    if live.count == Self.connections.count, let oldest = inOrder.min(by: { $0.lastTime < $1.lastTime }) {
      lose(oldest, body)
      remove(oldest)
    }
    // A handle is free, because the number of followed links is limited.
    repeat {
      nextHandle = nextHandle % 0x0EFE + 1
    } while live.values.contains { $0.handle.rawValue == nextHandle }
    let connection = AirConnection(
      ConnectionHandle(nextHandle), accessAddress: accessAddress, start, at: output.header.time)
    live[accessAddress] = connection
    last = connection
    noteDeadline(of: connection)
    return connection
  }

  private mutating func remove(_ connection: AirConnection) {
    report.add(connection.finish())
    live[connection.accessAddress] = nil
    if last === connection { last = nil }
  }

  private mutating func noteDeadline(of connection: AirConnection) {
    guard let deadline = connection.deadline else { return }
    nextDeadline = min(nextDeadline ?? deadline, deadline)
  }

  /// Reports a disconnection for links whose supervision timeout has passed.
  private mutating func loseLinks(
    at header: PacketRecordHeader, _ body: (borrowing PacketRecord) -> Void
  ) {
    guard let nextDeadline, header.time > nextDeadline else { return }
    self.nextDeadline = nil
    for connection in inOrder {
      guard let deadline = connection.deadline else { continue }
      guard deadline < header.time else {
        noteDeadline(of: connection)
        continue
      }
      output.header = header
      output.header.time = deadline
      lose(connection, body)
    }
  }

  private mutating func lose(_ connection: AirConnection, _ body: (borrowing PacketRecord) -> Void) {
    guard !connection.isLost, !connection.isTerminated, connection.link != nil else { return }
    connection.isLost = true
    end(connection, .connectionTimeout, nil, body)
  }

  private mutating func end(
    _ connection: AirConnection, _ reason: HCIStatus, _ packet: AirPacket?,
    _ body: (borrowing PacketRecord) -> Void
  ) {
    output.event(packet, body) { output in
      HCIEvents.disconnectionComplete(connection.handle, reason, into: &output)
    }
  }

  // MARK: Data

  private mutating func connection(
    _ frame: borrowing AirFrame, _ packet: AirPacket, _ body: (borrowing PacketRecord) -> Void
  ) -> AirConnection? {
    if let last, last.accessAddress == packet.accessAddress { return last }
    if let known = live[packet.accessAddress] {
      last = known
      return known
    }
    // A packet with bit errors may have a wrong access address, which differs each time.
    guard packet.crc != .bad, frame.pdu[0] & 0x03 != 0 else { return nil }
    return add(packet.accessAddress, nil, body)
  }

  private mutating func takeData(
    _ frame: borrowing AirFrame, _ packet: inout AirPacket, _ body: (borrowing PacketRecord) -> Void
  ) {
    let (header, payload) = (frame.pdu[0], frame.payload)
    let isControl = header & 0x03 == 0x03
    packet.pdu =
      isControl
      ? payload.isEmpty ? .unknown : AirPDU(.control, payload[0])
      : AirPDU(.data, payload.isEmpty ? 0 : header & 0x03)
    guard let connection = connection(frame, packet, body) else {
      return output.note(frame.pdu, packet, body)
    }
    let isOpen = frame.sniffed == .decrypted
    let isCRCTold = packet.crc != .unknown
    if packet.crc == .unknown {
      packet.crc = check(frame, connection.crcStart)
    }
    // A program that decrypts a log may leave the CRC of the encrypted packet, or zeros.
    let isReadable =
      packet.crc == .bad && !isCRCTold
      && connection.isReadable(header, payload, isFromCentral: packet.direction == .fromCentral)
    guard packet.crc != .bad || isOpen || isReadable else {
      connection.takeBadCRC(packet)
      return output.note(frame.pdu, packet, body)
    }
    if isReadable { packet.crc = .unknown }
    let isTold = packet.direction != .unknown
    if !isTold, isControl, !payload.isEmpty, !connection.encryption.isOn, ControlOpcode.isPlausible(payload),
      let isFromCentral = ControlOpcode(rawValue: payload[0])?.isFromCentral
    {
      connection.guess.learn(header, isFromCentral: isFromCentral)
    }
    let sequence = connection.take(header, payload, &packet, at: output.header.time)
    noteDeadline(of: connection)
    tellChanges(of: connection, packet, body)
    guard !payload.isEmpty, header & 0x03 != 0 else { return output.note(frame.pdu, packet, body) }
    let isOpened = connection.open(
      header, payload, &packet, isOpen: isOpen, isTold: isTold, sequence: sequence, keyring: keyring,
      into: &plain)
    connection.changeSide(isCentral: packet.direction == .fromCentral) { side in
      side.count(packet.protection)
      if sequence == .afterGap { side.isFrameBroken = true }
    }
    if isControl, packet.protection == .encrypted { packet.pdu = .encryptedControl }
    guard isOpened else { return deliver(payload, header, connection, &packet, body) }
    var opened: [UInt8] = []
    swap(&opened, &plain)
    deliver(opened.span, header, connection, &packet, body)
    swap(&opened, &plain)
  }

  /// Adds events for changes that take effect with this packet to the translated log.
  private mutating func tellChanges(
    of connection: AirConnection, _ packet: AirPacket, _ body: (borrowing PacketRecord) -> Void
  ) {
    if let parameters = connection.dueTiming() {
      output.event(nil, body) {
        HCIEvents.connectionUpdateComplete(connection.handle, parameters, into: &$0)
      }
    }
    if let phys = connection.duePHY() {
      output.event(nil, body) { HCIEvents.phyUpdateComplete(connection.handle, phys, into: &$0) }
    }
    if connection.isLost, let link = connection.link, let parameters = connection.parameters {
      // The link was never lost: the sniffer missed its packets.
      connection.isLost = false
      output.event(nil, body) {
        HCIEvents.connectionComplete(connection.handle, link.peripheral, parameters, into: &$0)
      }
    }
  }

  /// Delivers the payload of a packet, decrypted if possible.
  private mutating func deliver(
    _ payload: Span<UInt8>, _ header: UInt8, _ connection: AirConnection, _ packet: inout AirPacket,
    _ body: (borrowing PacketRecord) -> Void
  ) {
    if packet.protection != .clear, !connection.encryption.isTold {
      connection.encryption.isTold = true
      output.event(nil, body) { HCIEvents.encryptionChange(connection.handle, into: &$0) }
    }
    if packet.protection == .encrypted { return output.note(header, payload, packet, body) }
    let isFromCentral = packet.direction == .fromCentral
    if header & 0x03 == 0x03 {
      if packet.protection == .decrypted, !payload.isEmpty { packet.pdu = AirPDU(.control, payload[0]) }
      output.note(header, payload, packet, body)
      guard !packet.isRetransmission else { return }
      return tell(
        connection.take(control: payload, isFromCentral: isFromCentral), of: connection, packet, body)
    }
    let isStart = header & 0x03 == 0x02
    var isBroken = packet.isRetransmission
    connection.changeSide(isCentral: isFromCentral) { side in
      if isStart, !packet.isRetransmission { side.isFrameBroken = false }
      if side.isFrameBroken { isBroken = true }
    }
    if isBroken { return output.note(header, payload, packet, body) }
    connection.hear(
      payload, isStart: isStart, isFromCentral: isFromCentral, keyring: &keyring, searches: &searches)
    output.data(connection.handle, payload, isStart: isStart, packet, body)
  }

  private mutating func tell(
    _ effect: LinkProcedures.Effect, of connection: AirConnection, _ packet: AirPacket,
    _ body: (borrowing PacketRecord) -> Void
  ) {
    switch effect {
    case .none: break
    case .terminated(let reason): end(connection, HCIStatus(rawValue: reason), nil, body)
    case .dataLength:
      output.event(nil, body) { HCIEvents.dataLengthChange(connection.handle, effect, into: &$0) }
    }
  }
}

public import BLEPacketLog
import BLEStack
public import BLEWire

/// One packet of a log, with the ATT PDU that it completes.
public struct DecodedPacket: ~Escapable {
  /// Of all records in the log, from 1, so that other tools' numbers match.
  public let index: Int
  public let time: ReceiveTime
  public let direction: HCIDirection
  public let type: HCIPacketType
  /// The `0` of `hci0`; 0 in the formats that do not say.
  public let adapter: UInt16
  /// Of the air that the packet was made of.
  public let air: AirPacket?
  /// The link, for data and for commands and events that name one.
  public internal(set) var connectionHandle: ConnectionHandle?
  /// The peer of that link, where the log shows how it began.
  public internal(set) var peer: DeviceAddress?
  /// Whose packet it is, where it is of a link.
  package var device: LogDevice? { connectionHandle.map { LogDevice(adapter, $0, peer) } }
  /// Whether it says that the link is up.
  package internal(set) var beginsLink = false
  /// The packet without its H4 type octet.
  public let packet: Span<UInt8>
  /// Of a command or an event.
  public internal(set) var hci: HCISummary?
  /// The L2CAP channel of the frame whose last fragment this packet carries.
  public internal(set) var channelID: UInt16?
  /// That frame's payload. Of an extended advertising report that is the last of several: the data of all of them.
  public let payload: Span<UInt8>?
  /// The PDU in it.
  public let att: DecodedATT?
  /// Octets that the packet had: more than `packet` has where the log's writer cut the record.
  public let originalByteCount: Int
  /// Whether the log's writer cut the record.
  public var isCut: Bool { packet.count < originalByteCount }
  /// Whether a frame is lost with it that no packet before has lost already.
  package internal(set) var losesFrame = false
  /// The first octets of the ATT PDU that was cut: its value may lack its end.
  package let cutATT: DecodedATT?
  /// What is odd about the packet. It never ends the log.
  public internal(set) var problem: WireError?

  @_lifetime(copy record, copy payload, copy att, copy cutATT)
  init(
    _ record: borrowing PacketRecord, type: HCIPacketType, payload: Span<UInt8>? = nil,
    att: consuming DecodedATT? = nil, cutATT: consuming DecodedATT? = nil
  ) {
    originalByteCount = record.header.originalByteCount
    self.cutATT = cutATT
    index = record.index
    time = record.time
    direction = record.direction
    adapter = record.adapter
    air = record.header.air
    self.type = type
    packet = record.packet
    connectionHandle = nil
    peer = nil
    hci = nil
    channelID = nil
    self.payload = payload
    self.att = att
    problem = nil
  }
}

/// Follows the links of a log and puts their ATT PDUs together.
///
/// Recombines each direction of each link on its own. Only the fixed ATT channel is read: enhanced bearers
/// use channels that a log without their set-up does not name.
public struct PacketDecoder: ~Copyable {
  /// Links that are followed at once; the one silent for longest makes room for another. More than
  /// controllers have.
  public static let maximumLinks = 32

  /// Packets whose own fields contradict one another, or that break a frame.
  public private(set) var malformedPackets = 0
  /// Links that were forgotten to make room.
  public private(set) var evictedLinks = 0

  /// How long data of a link that has ended is still its own, in nanoseconds.
  private static let lateDataTime: Int64 = 1_000_000_000
  /// Links that ended last, against late data.
  private static let endedLinks = 8

  private var links: [TrackedLink] = []
  private var ended: [(link: TrackedLink, time: ReceiveTime)] = []
  private let attributes: LogAttributes
  private var reports = AdvertisingReportAssembler()

  public init() { attributes = LogAttributes() }

  /// - Parameter attributes: what is known of the devices beforehand, and learns what the log says of them.
  package init(_ attributes: LogAttributes) { self.attributes = attributes }

  /// Decodes one record and lends it to `body`, but for records that are no HCI packet.
  public mutating func decode(
    _ record: borrowing PacketRecord, _ body: (borrowing DecodedPacket) -> Void
  ) {
    guard let type = record.type else { return }
    switch type {
    case .acl: decodeACL(record, body)
    case .command, .event: decodeHCI(record, type, body)
    case .sco, .iso:
      var packet = DecodedPacket(record, type: type)
      if record.packet.count >= 2 { packet.connectionHandle = ConnectionHandle(record.packet.u16(at: 0)) }
      body(packet)
    default: body(DecodedPacket(record, type: type))
    }
  }

  /// Decodes an event with one report of extended advertising, if it is the last of several.
  private mutating func decodeReport(
    _ record: borrowing PacketRecord, _ body: (borrowing DecodedPacket) -> Void
  ) -> Bool {
    let event = record.packet
    guard event.count > 28, event[0] == HCIEventCode.leMeta.rawValue,
      event[2] == LESubevent.extendedAdvertisingReport.rawValue, event[3] == 1,
      let list = try? AdvertisingReports(validating: event.extracting(2...))
    else { return false }
    var reports = AdvertisingReportAssembler()
    swap(&reports, &self.reports)
    defer { swap(&reports, &self.reports) }
    var isJoined = false
    try? list.forEach { report in
      let byteCount = report.data.count
      reports.take(report) { whole in
        guard whole.data.count > byteCount else { return }
        isJoined = true
        var packet = DecodedPacket(record, type: .event, payload: whole.data)
        packet.hci = HCISummary(event: event)
        body(packet)
      }
    }
    return isJoined
  }

  private mutating func decodeHCI(
    _ record: borrowing PacketRecord, _ type: HCIPacketType, _ body: (borrowing DecodedPacket) -> Void
  ) {
    if type == .event, decodeReport(record, body) { return }
    let summary = type == .command ? HCISummary(command: record.packet) : HCISummary(event: record.packet)
    var packet = DecodedPacket(record, type: type)
    packet.hci = summary
    // What is odd about a cut one is that it was cut.
    packet.problem = record.isCut ? nil : summary.problem
    if packet.problem != nil { malformedPackets += 1 }
    if type == .event { packet.beginsLink = noteConnection(record) }
    if let handle = summary.handle.map({ ConnectionHandle($0) }) {
      packet.connectionHandle = handle
      packet.peer = knownLink(record.adapter, handle)?.peer
    }
    body(packet)
    if summary.event == .disconnectionComplete, let handle = packet.connectionHandle {
      end(record.adapter, handle, at: record.time)
    }
  }

  /// A data packet that the log's writer cut: of a notification, handle and the first octets of the value may be there.
  private mutating func decodeCut(
    _ fragment: borrowing ACLPacket, _ record: borrowing PacketRecord,
    _ body: (borrowing DecodedPacket) -> Void
  ) {
    let (handle, direction) = (fragment.handle, record.direction)
    let link = link(record.adapter, handle, at: record.time)
    var isLent = false
    link.receive(cut: fragment, direction) { frame in
      isLent = true
      let header = L2CAPFrame.headerByteCount
      let isATT = frame.count > header && frame.u16(at: 2) == ATT.channelID
      var packet = DecodedPacket(
        record, type: .acl, cutATT: isATT ? link.decode(cut: frame.extracting(header...), direction) : nil)
      packet.connectionHandle = handle
      packet.peer = link.peer
      if frame.count >= header { packet.channelID = frame.u16(at: 2) }
      packet.losesFrame = true
      body(packet)
    }
    if isLent { return }
    var packet = DecodedPacket(record, type: .acl)
    packet.connectionHandle = handle
    packet.peer = link.peer
    body(packet)
  }

  private mutating func decodeACL(
    _ record: borrowing PacketRecord, _ body: (borrowing DecodedPacket) -> Void
  ) {
    if let fragment = record.cutFragment { return decodeCut(fragment, record, body) }
    var handle: ConnectionHandle?
    var peer: DeviceAddress?
    var isDelivered = false
    var problem: WireError?
    do throws(WireError) {
      let fragment = try ACLPacket(validating: record.packet)
      handle = fragment.handle
      let link = link(record.adapter, fragment.handle, at: record.time)
      peer = link.peer
      try link.receive(fragment, record.direction) { frame in
        isDelivered = true
        let isATT = frame.channelID == ATT.channelID
        var packet = DecodedPacket(
          record, type: .acl, payload: frame.payload,
          att: isATT ? link.decode(frame.payload, record.direction) : nil)
        packet.connectionHandle = handle
        packet.peer = peer
        packet.channelID = frame.channelID
        packet.problem = packet.att?.problem
        problem = packet.problem
        body(packet)
      }
    } catch {
      problem = error
    }
    if record.isCut { problem = nil }
    if problem != nil { malformedPackets += 1 }
    guard !isDelivered else { return }
    if handle == nil, record.packet.count >= 2 {
      handle = ConnectionHandle(record.packet.u16(at: 0))
      peer = handle.flatMap { knownLink(record.adapter, $0)?.peer }
    }
    var packet = DecodedPacket(record, type: .acl)
    packet.connectionHandle = handle
    packet.peer = peer
    packet.problem = problem
    body(packet)
  }

  /// A link's fragments and requests begin and end with it: its handle may come back for another peer.
  ///
  /// - Returns: whether a link begins.
  private mutating func noteConnection(_ record: borrowing PacketRecord) -> Bool {
    let event = record.packet
    guard event.count >= 2,
      let (handle, peer) = ConnectionFields.start(code: event[0], event.extracting(2...))
    else { return false }
    forget(record.adapter, handle)
    ended.removeAll { $0.link.handle == handle && $0.link.adapter == record.adapter }
    add(
      TrackedLink(
        record.adapter, handle, peer: peer, remote: attributes.types(of: .peer(peer)), local: attributes.local
      ))
    return true
  }

  private func knownLink(_ adapter: UInt16, _ handle: ConnectionHandle) -> TrackedLink? {
    links.last { $0.handle == handle && $0.adapter == adapter }
  }

  /// The link of `handle`, moved to the end: the list is in the order of use.
  private mutating func link(
    _ adapter: UInt16, _ handle: ConnectionHandle, at time: ReceiveTime
  ) -> TrackedLink {
    if let index = links.lastIndex(where: { $0.handle == handle && $0.adapter == adapter }) {
      if index == links.count - 1 { return links[index] }
      let link = links.remove(at: index)
      links.append(link)
      return link
    }
    // Late data is its device's, but continues nothing: fragments and requests have ended with the link.
    let late = ended.last {
      $0.link.handle == handle && $0.link.adapter == adapter
        && TimeSpan(from: $0.time.nanoseconds, to: time.nanoseconds).nanoseconds < Self.lateDataTime
    }
    let peer = late?.link.peer
    let link = TrackedLink(
      adapter, handle, peer: peer, remote: attributes.types(of: LogDevice(adapter, handle, peer)),
      local: attributes.local)
    add(link)
    return link
  }

  private mutating func add(_ link: TrackedLink) {
    if links.count == Self.maximumLinks {
      links.removeFirst()
      evictedLinks += 1
    }
    links.append(link)
  }

  private mutating func end(_ adapter: UInt16, _ handle: ConnectionHandle, at time: ReceiveTime) {
    if let link = knownLink(adapter, handle) {
      if ended.count == Self.endedLinks { ended.removeFirst() }
      ended.append((link, time))
    }
    forget(adapter, handle)
  }

  private mutating func forget(_ adapter: UInt16, _ handle: ConnectionHandle) {
    links.removeAll { $0.handle == handle && $0.adapter == adapter }
  }
}

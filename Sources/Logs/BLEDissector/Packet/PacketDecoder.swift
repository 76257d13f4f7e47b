public import BLEPacketLog
import BLEStack
public import BLEWire

/// One packet of a log, and the ATT PDU that it completes.
public struct DecodedPacket: ~Escapable {
  /// The record's number in the log, starting at 1, as in other tools.
  public let index: Int
  public let time: ReceiveTime
  public let direction: HCIDirection
  public let type: HCIPacketType
  /// The adapter's number, such as 0 for `hci0`; also 0 in formats without adapters.
  public let adapter: UInt16
  /// Metadata of the air packet from which this packet was derived; `nil` in other logs.
  public let air: AirPacket?
  /// The link of a data packet, or of a command or event with a connection handle.
  public internal(set) var connectionHandle: ConnectionHandle?
  /// The link's peer, if the log contains the start of the link.
  public internal(set) var peer: DeviceAddress?
  /// The device of the link; `nil` if the packet belongs to no link.
  package var device: LogDevice? { connectionHandle.map { LogDevice(adapter, $0, peer) } }
  /// Whether the packet is an event that reports a new link.
  package internal(set) var beginsLink = false
  /// The packet without its H4 type byte.
  public let packet: Span<UInt8>
  /// Summary of a command or event.
  public internal(set) var hci: HCISummary?
  /// L2CAP channel of the frame that this packet completes.
  public internal(set) var channelID: UInt16?
  /// Payload of the L2CAP frame that this packet completes. For the last of several extended advertising
  /// reports, the joined data of all reports.
  public let payload: Span<UInt8>?
  /// The PDU in the payload.
  public let att: DecodedATT?
  /// Size of the original packet in bytes; larger than `packet` if the record was truncated.
  public let originalByteCount: Int
  /// Whether the program that wrote the log truncated the record.
  public var isCut: Bool { packet.count < originalByteCount }
  /// Whether this packet causes the loss of a frame that earlier packets had not lost already.
  package internal(set) var losesFrame = false
  /// The start of a truncated ATT PDU, whose value may be incomplete.
  package let cutATT: DecodedATT?
  /// A problem with the packet. Decoding continues after a problem.
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

/// Tracks the links of a log and reassembles their ATT PDUs.
///
/// Each direction of each link is reassembled separately. Only the fixed ATT channel is decoded, because the
/// channels of enhanced bearers are known only if the log contains their setup.
public struct PacketDecoder: ~Copyable {
  /// Maximum number of links tracked at the same time. A further link replaces the least recently used link.
  /// Controllers support fewer links.
  public static let maximumLinks = 32

  /// Number of packets whose fields are inconsistent, or that break a frame.
  public private(set) var malformedPackets = 0
  /// Number of links that were dropped because of the limit.
  public private(set) var evictedLinks = 0

  /// Time in nanoseconds after the end of a link during which data still belongs to the link.
  private static let lateDataTime: Int64 = 1_000_000_000
  /// Number of recently ended links that are kept for late data.
  private static let endedLinks = 8

  private var links: [TrackedLink] = []
  private var ended: [(link: TrackedLink, time: ReceiveTime)] = []
  private let attributes: LogAttributes
  private var reports = AdvertisingReportAssembler()

  public init() { attributes = LogAttributes() }

  /// Creates a decoder.
  ///
  /// - Parameter attributes: known attribute types of the devices. Types discovered in the log are added.
  package init(_ attributes: LogAttributes) { self.attributes = attributes }

  /// Decodes one record and passes it to `body`. Skips records that are not HCI packets.
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

  /// Decodes an event that completes several extended advertising reports.
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
    // Problems of a truncated packet result from the truncation.
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

  /// Decodes a truncated data packet. For a notification, the handle and the start of the value may be
  /// available.
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

  /// Resets the state of a link when it starts or ends, because another peer may get the same handle.
  ///
  /// - Returns: whether a link starts.
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

  /// Returns the link of `handle`, and moves it to the end of the list. The links in the list are in order of
  /// use.
  private mutating func link(
    _ adapter: UInt16, _ handle: ConnectionHandle, at time: ReceiveTime
  ) -> TrackedLink {
    if let index = links.lastIndex(where: { $0.handle == handle && $0.adapter == adapter }) {
      if index == links.count - 1 { return links[index] }
      let link = links.remove(at: index)
      links.append(link)
      return link
    }
    // Late data belongs to the same device, but does not continue fragments or requests, which ended with the
    // link.
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

public import BLECore
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
  /// The packet without its H4 type octet.
  public let packet: Span<UInt8>
  /// Of a command or an event.
  public internal(set) var hci: HCISummary?
  /// The L2CAP channel of the frame whose last fragment this packet carries.
  public internal(set) var channelID: UInt16?
  /// That frame's payload.
  public let payload: Span<UInt8>?
  /// The PDU in it.
  public let att: DecodedATT?
  /// What is odd about the packet. It never ends the log.
  public internal(set) var problem: WireError?

  @_lifetime(copy record, copy payload, copy att)
  init(
    _ record: borrowing PacketRecord, type: HCIPacketType, payload: Span<UInt8>? = nil,
    att: consuming DecodedATT? = nil
  ) {
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

  private var links: [TrackedLink] = []
  private var databases = KnownDatabases()

  public init() {}

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

  private mutating func decodeHCI(
    _ record: borrowing PacketRecord, _ type: HCIPacketType, _ body: (borrowing DecodedPacket) -> Void
  ) {
    let summary = type == .command ? HCISummary(command: record.packet) : HCISummary(event: record.packet)
    var packet = DecodedPacket(record, type: type)
    packet.hci = summary
    packet.problem = summary.problem
    if summary.problem != nil { malformedPackets += 1 }
    if type == .event { noteConnection(record) }
    if let handle = summary.handle.map({ ConnectionHandle($0) }) {
      packet.connectionHandle = handle
      packet.peer = knownLink(record.adapter, handle)?.peer
    }
    body(packet)
    if summary.event == .disconnectionComplete, let handle = packet.connectionHandle {
      forget(record.adapter, handle)
    }
  }

  private mutating func decodeACL(
    _ record: borrowing PacketRecord, _ body: (borrowing DecodedPacket) -> Void
  ) {
    var handle: ConnectionHandle?
    var peer: DeviceAddress?
    var isDelivered = false
    var problem: WireError?
    do throws(WireError) {
      let fragment = try ACLPacket(validating: record.packet)
      handle = fragment.handle
      let link = link(record.adapter, fragment.handle)
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
    if problem != nil { malformedPackets += 1 }
    guard !isDelivered else { return }
    var packet = DecodedPacket(record, type: .acl)
    packet.connectionHandle = handle
    packet.peer = peer
    packet.problem = problem
    body(packet)
  }

  /// A link's fragments and requests begin and end with it: its handle may come back for another peer.
  private mutating func noteConnection(_ record: borrowing PacketRecord) {
    let event = record.packet
    guard event.count >= 2,
      let (handle, peer) = ConnectionFields.start(code: event[0], event.extracting(2...))
    else { return }
    forget(record.adapter, handle)
    add(
      TrackedLink(
        record.adapter, handle, peer: peer, remote: databases.database(of: peer), local: databases.local))
  }

  private func knownLink(_ adapter: UInt16, _ handle: ConnectionHandle) -> TrackedLink? {
    links.last { $0.handle == handle && $0.adapter == adapter }
  }

  /// The link of `handle`, moved to the end: the list is in the order of use.
  private mutating func link(_ adapter: UInt16, _ handle: ConnectionHandle) -> TrackedLink {
    if let index = links.lastIndex(where: { $0.handle == handle && $0.adapter == adapter }) {
      if index == links.count - 1 { return links[index] }
      let link = links.remove(at: index)
      links.append(link)
      return link
    }
    let link = TrackedLink(adapter, handle, peer: nil, remote: AttributeTypes(), local: databases.local)
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

  private mutating func forget(_ adapter: UInt16, _ handle: ConnectionHandle) {
    links.removeAll { $0.handle == handle && $0.adapter == adapter }
  }
}

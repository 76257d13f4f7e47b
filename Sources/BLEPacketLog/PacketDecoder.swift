public import BLECore
import BLEStack
public import BLEWire

/// One packet of a log, with the ATT PDU that it completes.
public struct DecodedPacket: ~Escapable {
  /// Of all records in the log, from 1, so that other tools' numbers match.
  public let index: Int
  public let time: ReceiveTime
  public let direction: HCIDirection
  public let type: HCIPacketType
  /// The link, for ACL, SCO and ISO data.
  public let connectionHandle: ConnectionHandle?
  /// The packet without its H4 type octet.
  public let packet: Span<UInt8>
  /// The PDU whose last fragment this packet carries.
  public let att: DecodedATT?
  /// What is odd about the packet. It never ends the log.
  public let problem: WireError?

  @_lifetime(copy record, copy att)
  init(
    _ record: borrowing PacketRecord, type: HCIPacketType, connectionHandle: ConnectionHandle? = nil,
    att: consuming DecodedATT? = nil, problem: WireError? = nil
  ) {
    index = record.index
    time = record.time
    direction = record.direction
    self.type = type
    self.connectionHandle = connectionHandle
    packet = record.packet
    self.att = att
    self.problem = problem
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

  public init() {}

  /// Decodes one record and lends it to `body`, but for records that are no HCI packet.
  public mutating func decode(
    _ record: borrowing PacketRecord, _ body: (borrowing DecodedPacket) -> Void
  ) {
    guard let type = record.type else { return }
    switch type {
    case .acl:
      decodeACL(record, body)
    case .sco, .iso:
      let handle =
        record.packet.count >= 2 ? ConnectionHandle(record.packet.u16(at: 0)) : nil
      body(DecodedPacket(record, type: type, connectionHandle: handle))
    case .event:
      noteEvent(record.packet)
      body(DecodedPacket(record, type: type))
    default:
      body(DecodedPacket(record, type: type))
    }
  }

  private mutating func decodeACL(
    _ record: borrowing PacketRecord, _ body: (borrowing DecodedPacket) -> Void
  ) {
    var handle: ConnectionHandle?
    var isDelivered = false
    var problem: WireError?
    do throws(WireError) {
      let packet = try ACLPacket(validating: record.packet)
      handle = packet.handle
      let link = link(packet.handle)
      try link.receive(packet, record.direction) { frame in
        guard frame.channelID == ATT.channelID else { return }
        let att = DecodedATT(
          frame.payload, answering: link.askedHandle(answeredBy: frame.payload, record.direction))
        link.note(att, record.direction)
        isDelivered = true
        body(
          DecodedPacket(
            record, type: .acl, connectionHandle: handle, att: att, problem: att.problem))
        problem = att.problem
      }
    } catch {
      problem = error
    }
    if problem != nil { malformedPackets += 1 }
    if !isDelivered {
      body(DecodedPacket(record, type: .acl, connectionHandle: handle, problem: problem))
    }
  }

  /// A link's fragments and requests end with it: its handle may come back for another peer.
  private mutating func noteEvent(_ packet: Span<UInt8>) {
    guard let event = try? HCIEventPacket(validating: packet) else {
      malformedPackets += 1
      return
    }
    let parameters = event.parameters
    switch event.code {
    case .disconnectionComplete where parameters.count >= 3:
      forget(ConnectionHandle(parameters.u16(at: 1)))
    case .leMeta where parameters.count >= 4:
      let subevent = LESubevent(rawValue: parameters[0])
      if subevent == .connectionComplete || subevent == .enhancedConnectionComplete {
        forget(ConnectionHandle(parameters.u16(at: 2)))
      }
    default: break
    }
  }

  /// The link of `handle`, moved to the end: the list is in the order of use.
  private mutating func link(_ handle: ConnectionHandle) -> TrackedLink {
    if let index = links.lastIndex(where: { $0.handle == handle }) {
      if index == links.count - 1 { return links[index] }
      let link = links.remove(at: index)
      links.append(link)
      return link
    }
    if links.count == Self.maximumLinks {
      links.removeFirst()
      evictedLinks += 1
    }
    let link = TrackedLink(handle)
    links.append(link)
    return link
  }

  private mutating func forget(_ handle: ConnectionHandle) {
    links.removeAll { $0.handle == handle }
  }
}

/// What is under way on one link: in each direction a frame, a request and an indication.
private final class TrackedLink {
  /// What waits for an answer. Requests and indications wait independently of one another.
  private struct Asked {
    var opcode: ATTOpcode
    var handle: AttributeHandle?

    /// A response's opcode is one more than its request's, and a confirmation's than the indication's.
    func isAnswered(by opcode: UInt8) -> Bool { Int(self.opcode.rawValue) + 1 == Int(opcode) }
  }

  private struct Side {
    var request: Asked?
    var indication: Asked?
  }

  let handle: ConnectionHandle
  private var fromHost = L2CAPRecombiner()
  private var fromController = L2CAPRecombiner()
  private var host = Side()
  private var controller = Side()

  init(_ handle: ConnectionHandle) { self.handle = handle }

  func receive(
    _ packet: borrowing ACLPacket, _ direction: HCIDirection, _ body: (borrowing L2CAPFrame) -> Void
  ) throws(WireError) {
    switch direction {
    case .hostToController: try fromHost.receive(packet, body)
    case .controllerToHost: try fromController.receive(packet, body)
    }
  }

  /// The attribute that `pdu`, which goes in `direction`, answers for.
  func askedHandle(answeredBy pdu: Span<UInt8>, _ direction: HCIDirection) -> AttributeHandle? {
    guard !pdu.isEmpty else { return nil }
    let asking = direction == .hostToController ? controller : host
    for asked in [asking.request, asking.indication] {
      if let asked, asked.isAnswered(by: pdu[0]) { return asked.handle }
    }
    return nil
  }

  func note(_ att: borrowing DecodedATT, _ direction: HCIDirection) {
    switch direction {
    case .hostToController: Self.note(att, from: &host, to: &controller)
    case .controllerToHost: Self.note(att, from: &controller, to: &host)
    }
  }

  private static func note(_ att: borrowing DecodedATT, from sender: inout Side, to receiver: inout Side) {
    switch att.opcode.kind {
    case .request: sender.request = Asked(opcode: att.opcode, handle: att.handle)
    case .indication: sender.indication = Asked(opcode: att.opcode, handle: att.handle)
    case .response: receiver.request = nil
    case .confirmation: receiver.indication = nil
    case .command, .notification: break
    }
  }
}

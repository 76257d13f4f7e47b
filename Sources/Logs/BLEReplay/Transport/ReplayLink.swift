import BLEDissector
import BLEHost
import BLEPacketLog
import BLEStack
package import BLEWire

/// One link of a log as a separate conversation: its start, the frames of the ATT channel, and its end.
package struct ReplayLink {
  let number: Int
  let peer: DeviceAddress?
  let handle: ConnectionHandle
  /// The packets of the link, beginning with LE Connection Complete. Each frame is complete in one packet.
  let packets: [ReplayPacket]
  /// Number of frames that are incomplete in the log.
  let malformed: Int
  /// Attributes learned from the log's other links to the same peer, because a client sends fewer requests
  /// when it reconnects. Without such attributes, the attributes are inferred from the values.
  let server: RecordedAttributes

  /// Extracts a link from a log.
  ///
  /// - Parameter number: link number from 1, as `log stats` counts them; `nil` for the first link that has
  ///   ATT PDUs.
  /// - Throws: if there is no such link, or it contains nothing to play.
  init(_ number: Int?, of log: ReplayLog) throws(HostError) {
    if let number {
      guard log.connections.indices.contains(number - 1) else {
        throw .unsuitable("the log has \(counted(log.connections.count, "link")); there is no link \(number)")
      }
      self.init(number, log)
      guard hasPDUs else { throw .unsuitable("link \(number) of the log has no ATT PDU to play") }
      return
    }
    for number in 1...max(1, log.connections.count) where number <= log.connections.count {
      self.init(number, log)
      if hasPDUs { return }
    }
    throw .unsuitable("the log has no link with ATT PDUs that could be played")
  }

  private var hasPDUs: Bool { packets.contains { $0.octets[0] == HCIPacketType.acl.rawValue } }

  private init(_ number: Int, _ log: ReplayLog) {
    let (connection, positions) = log.connections[number - 1]
    var frames = LinkFrames(connection)
    for position in positions { frames.take(log.packets[position]) }
    if !frames.hasStart, let first = frames.packets.first {
      frames.packets.insert(
        Self.start(connection.handle, peer: connection.peer, at: first.time, adapter: connection.adapter),
        at: 0)
    }
    self.number = number
    peer = connection.peer
    handle = connection.handle
    packets = frames.packets
    malformed = frames.malformed
    var server = Self.server(beside: number, log)
    if !server.hasDeclarations { server.assume(Self.proven(of: packets)) }
    self.server = server
  }

  /// Infers the types of attributes from the values of a link, for attributes whose types are not in the log.
  private static func proven(
    of packets: [ReplayPacket]
  ) -> [(handle: AttributeHandle, uuid: BluetoothUUID)] {
    var decoder = PacketDecoder(LogAttributes())
    var evidence = AttributeEvidence()
    for packet in packets {
      var header = PacketRecordHeader()
      (header.time, header.direction, header.adapter) = (packet.time, packet.direction, packet.adapter)
      header.type = HCIPacketType(rawValue: packet.octets[0])
      decoder.decode(PacketRecord(header, packet: packet.octets.span.extracting(1...))) { evidence.take($0) }
    }
    return evidence.types
  }

  private static func server(beside number: Int, _ log: ReplayLog) -> RecordedAttributes {
    var server = RecordedAttributes()
    let connection = log.connections[number - 1].connection
    guard let peer = connection.peer else { return server }
    for (other, positions) in log.connections where other.peer == peer && other != connection {
      var frames = LinkFrames(other)
      for position in positions { frames.take(log.packets[position]) }
      var request: ReplayPacket?
      for packet in frames.packets {
        guard case .att(_, let opcode) = ReplayRole(packet.octets) else { continue }
        if packet.direction == .hostToController, opcode.kind == .request {
          request = packet
        } else if packet.direction == .controllerToHost, opcode.kind == .response, let asked = request {
          request = nil
          server.learn(asked, packet)
        }
      }
    }
    return server
  }

  /// Makes the start of a link that was up before the log starts. The start has no timing, and its address is
  /// `.any` if the log does not contain the peer's address.
  package static func start(
    _ handle: ConnectionHandle, peer: DeviceAddress?, at time: ReceiveTime, adapter: UInt16
  ) -> ReplayPacket {
    let peer = peer ?? .any
    let start = [HCIPacketType.event.rawValue] + PacketTap.start(of: handle, peer, .central, nil)
    return ReplayPacket(time: time, .controllerToHost, adapter: adapter, start)
  }
}

/// Reassembles the frames of one link, each direction separately.
private struct LinkFrames: ~Copyable {
  private let connection: LogConnection
  var packets: [ReplayPacket] = []
  private(set) var hasStart = false
  private(set) var malformed = 0
  private var toController = L2CAPRecombiner()
  private var toHost = L2CAPRecombiner()

  init(_ connection: LogConnection) { self.connection = connection }

  mutating func take(_ packet: ReplayPacket) {
    switch HCIPacketType(rawValue: packet.octets[0]) {
    case .acl: takeData(packet)
    case .event: takeEvent(packet)
    default: break
    }
  }

  private mutating func takeEvent(_ packet: ReplayPacket) {
    guard packet.octets.count > 3 else { return }
    switch HCIEventCode(rawValue: packet.octets[1]) {
    // A disconnection requested by the recorded host is played only when ringtap's host requests it too.
    case .disconnectionComplete:
      if packet.octets.last != HCIStatus.localHostTerminated.rawValue { packets.append(packet) }
    case .leMeta:
      switch LESubevent(rawValue: packet.octets[3]) {
      case .connectionComplete, .enhancedConnectionComplete:
        hasStart = true
        packets.append(packet)
      case .connectionUpdateComplete, .dataLengthChange, .phyUpdateComplete: packets.append(packet)
      default: break
      }
    default: break
    }
  }

  private mutating func takeData(_ packet: ReplayPacket) {
    let octets = packet.octets.span
    var frames: [[UInt8]] = []
    func keep(_ frame: borrowing L2CAPFrame) {
      guard frame.channelID == ATT.channelID else { return }
      frames.append(
        [UInt8](encoding: L2CAPFrame.headerByteCount + frame.payload.count) { frame.encode(into: &$0) })
    }
    do throws(WireError) {
      let fragment = try ACLPacket(validating: octets.extracting(1...))
      switch packet.direction {
      case .hostToController: try toController.receive(fragment, keep)
      case .controllerToHost: try toHost.receive(fragment, keep)
      }
    } catch { malformed += 1 }
    for frame in frames { packets.append(whole(frame, packet)) }
  }

  /// Makes a packet with a complete frame. The boundary flag of a first fragment depends on the direction.
  /// Core 5.4, Vol 4, Part E, 5.4.2.
  private func whole(_ frame: [UInt8], _ packet: ReplayPacket) -> ReplayPacket {
    let boundary: ACLPacket.Boundary =
      packet.direction == .hostToController ? .firstNonFlushable : .firstFlushable
    let octets = [UInt8](encoding: 1 + ACLPacket.headerByteCount + frame.count) {
      $0.append(HCIPacketType.acl.rawValue)
      ACLPacket(handle: connection.handle, boundary: boundary, data: frame.span).encode(into: &$0)
    }
    return ReplayPacket(
      index: packet.index, time: packet.time, packet.direction, adapter: packet.adapter, octets)
  }
}

public import BLEHost
import BLEStack
public import BLEWire

/// Drives hosts of ours, one for each adapter, by the packets of a log.
///
/// What the recorded host began is begun by ours too: commands, requests of its client, signalling. What a host has to
/// answer, ours answers by itself; each packet of the recorded host's is compared with what ours says. Without clocks
/// and sockets: the same log gives the same findings.
public struct LogPlayer: ~Copyable {
  public typealias NotificationSink = (ConnectionHandle, borrowing HandleValueNotification, ReceiveTime) ->
    Void

  private let log: ReplayLog
  private var adapters: [UInt16: PlayedHost] = [:]
  /// Positions in the log's packets that are played; `nil` for all.
  private var positions: [Int]?
  private var next = 0
  public private(set) var findings = ReplayFindings()

  /// - Parameters:
  ///   - log: what is played.
  ///   - link: plays only this connection, from 1, without commands, whose answers do not name it; `nil` for all.
  /// - Throws: where there is no such connection.
  public init(_ log: ReplayLog, link: Int? = nil) throws(HostError) {
    self.log = log
    guard let link else { return }
    guard log.connections.indices.contains(link - 1) else {
      throw .unsuitable("the log has \(log.connections.count) links; there is no link \(link)")
    }
    positions = log.connections[link - 1].positions.filter {
      switch ReplayRole(log.packets[$0].octets) {
      case .command, .answer: false
      default: true
      }
    }
  }

  public var count: Int { positions?.count ?? log.packets.count }

  /// The packet that is played next; `nil` at the end.
  public var upcoming: ReplayPacket? { next < count ? log.packets[positions?[next] ?? next] : nil }

  /// Plays the next packet.
  ///
  /// - Parameter notification: gets each value that a server sent to a host of ours.
  public mutating func step(_ notification: NotificationSink) {
    guard let packet = upcoming else { return }
    let position = positions?[next] ?? next
    next += 1
    findings.played += 1
    let host: PlayedHost
    if let known = adapters[packet.adapter] {
      host = known
    } else {
      host = PlayedHost(ReplayFacts(log, adapter: packet.adapter), comparesCommands: positions == nil)
      adapters[packet.adapter] = host
    }
    // With one link only, nobody's start-up is in what is played.
    let begins = positions == nil && host.isReset(packet) && beginsAsOurs(position, packet.adapter)
    host.play(packet, beginsAsOurs: begins, &findings, notification)
  }

  /// Tells what ours said and the log never had.
  public mutating func finish() {
    for number in adapters.keys.sorted() { adapters[number]?.finish(&findings) }
  }

  private func beginsAsOurs(_ position: Int, _ adapter: UInt16) -> Bool {
    let start = log.packets[position...].lazy.filter { $0.adapter == adapter }.prefix(64)
    let packets = Array(start)
    return ReplayPlan.beginsAsOurs(packets[...])
  }
}

/// What a log says of a controller, wherever it stands in it.
struct ReplayFacts {
  /// Return parameters of LE Read Buffer Size after the status.
  var buffers: [UInt8] = [0xFF, 0xFF, 0xFF]
  /// The controller tells of packets that are sent.
  var hasCompletions = false

  init(_ log: ReplayLog, adapter: UInt16) {
    var shared: [UInt8]?
    var own: [UInt8]?
    for packet in log.packets where packet.adapter == adapter && packet.direction == .controllerToHost {
      let octets = packet.octets
      guard octets.count > 6, octets[0] == HCIPacketType.event.rawValue else { continue }
      if octets[1] == HCIEventCode.numberOfCompletedPackets.rawValue { hasCompletions = true }
      switch ReplayRole(octets) {
      case .answer(.leReadBufferSize) where octets.count >= 10 && octets[6] == 0 && octets[9] > 0:
        own = own ?? Array(octets[7...9])
      // Shared with BR/EDR: length of ACL data, of synchronous data, number of ACL packets.
      case .answer(.readBufferSize) where octets.count >= 12 && octets[6] == 0:
        shared = shared ?? [octets[7], octets[8], octets[11] > 0 ? 0xFF : octets[10]]
      default: break
      }
    }
    buffers = own ?? shared ?? buffers
  }
}

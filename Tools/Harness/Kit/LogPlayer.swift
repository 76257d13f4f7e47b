package import BLEHost
package import BLEReplay
import BLEStack
package import BLEWire

/// Drives instances of our host, one per adapter, with the packets of a log.
///
/// Our host starts whatever the recorded host started: commands, its client's requests, signalling. It
/// responds to the peer by itself. Each packet of the recorded host is compared with what our host sends. No
/// clocks or sockets are involved, so the same log always gives the same findings.
package struct LogPlayer: ~Copyable {
  package typealias NotificationSink = (ConnectionHandle, borrowing HandleValueNotification, ReceiveTime) ->
    Void

  private let log: ReplayLog
  private var adapters: [UInt16: PlayedHost] = [:]
  /// Indexes of the packets to play; `nil` for all.
  private var positions: [Int]?
  private var next = 0
  package private(set) var findings = ReplayFindings()

  /// - Parameters:
  ///   - log: the log to play.
  ///   - link: plays only this connection, counted from 1. Commands are left out because their replies do not
  ///     name a connection. `nil` plays all.
  /// - Throws: if the log has no such connection.
  package init(_ log: ReplayLog, link: Int? = nil) throws(HostError) {
    self.log = log
    guard let link else { return }
    guard log.connections.indices.contains(link - 1) else {
      throw .unsuitable("the log has \(counted(log.connections.count, "link")); there is no link \(link)")
    }
    positions = log.connections[link - 1].positions.filter {
      switch ReplayRole(log.packets[$0].octets) {
      case .command, .answer: false
      default: true
      }
    }
  }

  package var count: Int { positions?.count ?? log.packets.count }

  /// The packet to play next; `nil` at the end.
  package var upcoming: ReplayPacket? { next < count ? log.packets[positions?[next] ?? next] : nil }

  /// Plays the next packet.
  ///
  /// - Parameter notification: gets each value that a server sends to our host.
  package mutating func step(_ notification: NotificationSink) {
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
    // Playing a single link leaves out every start-up sequence.
    let begins = positions == nil && host.isReset(packet) && beginsAsOurs(position, packet.adapter)
    host.play(packet, beginsAsOurs: begins, &findings, notification)
  }

  /// Reports packets that our host sent and the log does not contain.
  package mutating func finish() {
    for number in adapters.keys.sorted() { adapters[number]?.finish(&findings) }
  }

  private func beginsAsOurs(_ position: Int, _ adapter: UInt16) -> Bool {
    let start = log.packets[position...].lazy.filter { $0.adapter == adapter }.prefix(64)
    let packets = Array(start)
    return ReplayPlan.beginsAsOurs(packets[...])
  }
}

/// Facts about a controller that appear anywhere in a log.
struct ReplayFacts {
  /// Return parameters of LE Read Buffer Size after the status.
  var buffers: [UInt8] = [0xFF, 0xFF, 0xFF]
  /// True if the controller sends Number Of Completed Packets events.
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

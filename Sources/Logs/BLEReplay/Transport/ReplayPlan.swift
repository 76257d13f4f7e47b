import BLEHost
import BLEPacketLog
import BLEStack
import BLEWire

/// The part of a log that is played to ringtap's host, and the source of the replies to the host's commands.
package struct ReplayPlan {
  let packets: [ReplayPacket]
  /// Numbers of the records with data for the host that the log's writer truncated, in order. These records
  /// are not in `packets`.
  let cuts: [Int]
  /// Attributes of servers that the log contains in addition to these packets.
  let servers: [ConnectionHandle: RecordedAttributes]
  /// The controller that answers commands; `nil` if the log contains the replies.
  let standIn: StandInController?
  /// Advertising reports for the stand-in.
  let reports: [ReplayPacket]
  /// The device in the log, if a scan would not find the device. Its address is `.any` if the log does not
  /// contain the address.
  let peer: DeviceAddress?
  let link: Int?
  /// Whether the log has advertisements and no link. If so, `packets` are advertising reports, which are
  /// delivered while the host scans.
  let isScan: Bool

  /// Plans the replay of a log.
  ///
  /// - Throws: if the log has nothing to play.
  init(_ log: ReplayLog, link number: Int?) throws(HostError) {
    if number == nil, let session = Self.session(in: log) {
      let scans = session.contains {
        ReplayRole($0.octets) == .command(.leSetScanEnable)
          || ReplayRole($0.octets) == .command(.leSetExtendedScanEnable)
      }
      packets = session.filter { !$0.isCutData }
      cuts = log.cuts(in: session)
      servers = [:]
      standIn = nil
      reports = []
      peer =
        scans ? nil : log.connections.first { $0.connection.adapter == session[0].adapter }?.connection.peer
      link = nil
      isScan = false
      return
    }
    if number == nil, !Self.hasLinkWithData(log), let reports = Self.scan(in: log) {
      packets = reports
      cuts = []
      servers = [:]
      standIn = StandInController(peer: nil, handle: ConnectionHandle(0))
      self.reports = []
      peer = nil
      link = nil
      isScan = true
      return
    }
    isScan = false
    let chosen = try ReplayLink(number, of: log)
    var controller = StandInController(peer: chosen.peer, handle: chosen.handle)
    let adapter = chosen.packets[0].adapter
    if let address = Self.address(of: adapter, in: log) { controller.address = address }
    packets = chosen.packets
    cuts = log.cuts(in: log.connections[chosen.number - 1].positions.map { log.packets[$0] })
    servers = [chosen.handle: chosen.server]
    standIn = controller
    reports = log.packets.filter { $0.adapter == adapter && Self.isReport($0.octets) }
    peer = chosen.peer ?? .any
    link = chosen.number
  }

  /// Returns the first session of ringtap's own host, from its Reset to the next Reset.
  static func session(in log: ReplayLog) -> [ReplayPacket]? {
    for adapter in Set(log.packets.map(\.adapter)).sorted() {
      let packets = log.packets.filter { $0.adapter == adapter }
      let resets = packets.indices.filter {
        packets[$0].direction == .hostToController && ReplayRole(packets[$0].octets) == .command(.reset)
      }
      for (number, start) in resets.enumerated() where beginsAsOurs(packets[start...]) {
        let end = number + 1 < resets.count ? resets[number + 1] : packets.count
        return Array(packets[start..<end])
      }
    }
    return nil
  }

  /// Returns whether the packets begin with the start-up commands of ringtap's host, at least the first two
  /// commands.
  package static func beginsAsOurs(_ packets: ArraySlice<ReplayPacket>) -> Bool {
    var expected = HCIHost.startUpOpcodes[...]
    for packet in packets where packet.direction == .hostToController {
      guard let next = expected.first else { return true }
      guard ReplayRole(packet.octets) == .command(next) else { return false }
      expected.removeFirst()
    }
    return expected.count < HCIHost.startUpOpcodes.count - 1
  }

  private static func hasLinkWithData(_ log: ReplayLog) -> Bool {
    log.connections.contains { link in
      link.positions.contains { log.packets[$0].octets[0] == HCIPacketType.acl.rawValue }
    }
  }

  /// Returns the reports of the adapter with the most reports; `nil` if the log has no reports.
  private static func scan(in log: ReplayLog) -> [ReplayPacket]? {
    let reports = Dictionary(grouping: log.packets.filter { isReport($0.octets) }, by: \.adapter)
    return reports.max { ($0.value.count, $1.key) < ($1.value.count, $0.key) }?.value
  }

  /// Returns the adapter's own address if the log contains the reply to Read BD_ADDR. Core 5.4, Vol 4, Part
  /// E, 7.4.6.
  private static func address(of adapter: UInt16, in log: ReplayLog) -> DeviceAddress? {
    for packet in log.packets where packet.adapter == adapter && packet.octets.count >= 13 {
      guard ReplayRole(packet.octets) == .answer(.readBDADDR), packet.octets[6] == 0 else { continue }
      let address = packet.octets.span.address(at: 7, type: .public)
      return address.bits == 0 ? nil : address
    }
    return nil
  }

  private static func isReport(_ octets: [UInt8]) -> Bool {
    guard octets.count > 3, octets[0] == HCIPacketType.event.rawValue,
      octets[1] == HCIEventCode.leMeta.rawValue
    else { return false }
    return octets[3] == LESubevent.advertisingReport.rawValue
      || octets[3] == LESubevent.extendedAdvertisingReport.rawValue
  }
}

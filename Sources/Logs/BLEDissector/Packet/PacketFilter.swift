package import BLEPacketLog
package import BLEWire

/// Selects the packets of a log that meet all given conditions.
package struct PacketFilter: Sendable {
  /// Protocol layer. A packet belongs to each layer of which it carries a complete unit.
  package enum Layer: String, CaseIterable, Sendable {
    /// Commands and events.
    case hci
    /// Frames of any channel.
    case l2cap
    case att, smp
    /// Air packets, whatever they carry.
    case ll
  }

  package enum Instant: Hashable, Sendable {
    /// Nanoseconds since the Unix epoch.
    case absolute(Int64)
    /// Nanoseconds since the log's first record.
    case fromStart(Int64)
  }

  package enum Attribute: Hashable, Sendable {
    case handle(AttributeHandle)
    case uuid(BluetoothUUID)
  }

  package var since: Instant?
  /// The last time that is included.
  package var until: Instant?
  package var adapter: UInt16?
  package var handle: ConnectionHandle?
  /// Peer of the packet's link, or an address in a command or event. The address type is ignored.
  package var address: DeviceAddress?
  package var direction: HCIDirection?
  package var layers: [Layer] = []
  package var attOpcodes: [ATTOpcode] = []
  package var attributes: [Attribute] = []
  /// Bytes to find in the packet or in the frame that it completes.
  package var pattern: [UInt8] = []

  private var firstTime: Int64?

  package init() {}

  /// Sets the time of the first record, from which `fromStart` counts.
  package mutating func start(at time: ReceiveTime) { firstTime = time.nanoseconds }

  /// Returns whether a record that is not a packet passes the filter.
  package func passesNote(_ record: borrowing PacketRecord) -> Bool {
    let isOfLayer = layers.isEmpty || layers.contains(.ll) && record.header.air != nil
    return isInTime(record.time) && isOf(record.adapter) && isOfLayer && handle == nil && address == nil
      && direction == nil && attOpcodes.isEmpty && attributes.isEmpty
      && (pattern.isEmpty || record.header.air != nil && Self.contains(record.packet, pattern))
  }

  package func passes(_ packet: borrowing DecodedPacket) -> Bool {
    guard isInTime(packet.time), isOf(packet.adapter) else { return false }
    if let handle, packet.connectionHandle != handle { return false }
    if let direction, packet.direction != direction { return false }
    if let address, !concerns(packet, address) { return false }
    if !layers.isEmpty, !layers.contains(where: { Self.isOf($0, packet) }) { return false }
    if !attOpcodes.isEmpty {
      guard let opcode = packet.att?.opcode, attOpcodes.contains(opcode) else { return false }
    }
    if !attributes.isEmpty, !concernsAttribute(packet) { return false }
    return pattern.isEmpty || containsPattern(packet)
  }

  private func isInTime(_ time: ReceiveTime) -> Bool {
    if let since, time.nanoseconds < nanoseconds(since) { return false }
    if let until, time.nanoseconds > nanoseconds(until) { return false }
    return true
  }

  private func nanoseconds(_ instant: Instant) -> Int64 {
    switch instant {
    case .absolute(let nanoseconds): return nanoseconds
    case .fromStart(let nanoseconds):
      let (sum, overflow) = (firstTime ?? 0).addingReportingOverflow(nanoseconds)
      return overflow ? .max : sum
    }
  }

  private func isOf(_ adapter: UInt16) -> Bool { self.adapter == nil || self.adapter == adapter }

  private static func isOf(_ layer: Layer, _ packet: borrowing DecodedPacket) -> Bool {
    switch layer {
    case .hci: packet.type == .command || packet.type == .event
    case .l2cap: packet.channelID != nil
    case .att: packet.att != nil
    case .smp: packet.channelID == L2CAPFrame.FixedChannel.securityManager
    case .ll: packet.air != nil
    }
  }

  private func concerns(_ packet: borrowing DecodedPacket, _ address: DeviceAddress) -> Bool {
    if let peer = packet.peer, peer.bits == address.bits { return true }
    guard packet.type == .command || packet.type == .event else { return false }
    let octets = packet.packet
    guard octets.count >= 6 else { return false }
    for offset in 0...octets.count - 6 where octets.address(at: offset, type: .public).bits == address.bits {
      return true
    }
    return false
  }

  private func concernsAttribute(_ packet: borrowing DecodedPacket) -> Bool {
    guard let att = packet.att else { return false }
    for attribute in attributes {
      switch attribute {
      case .handle(let handle): if att.handle == handle { return true }
      case .uuid(let uuid): if att.uuid == uuid { return true }
      }
    }
    return false
  }

  private func containsPattern(_ packet: borrowing DecodedPacket) -> Bool {
    if Self.contains(packet.packet, pattern) { return true }
    guard let payload = packet.payload else { return false }
    return Self.contains(payload, pattern)
  }

  private static func contains(_ octets: Span<UInt8>, _ pattern: [UInt8]) -> Bool {
    guard octets.count >= pattern.count else { return false }
    for start in 0...octets.count - pattern.count {
      if pattern.indices.allSatisfy({ octets[start + $0] == pattern[$0] }) { return true }
    }
    return false
  }
}

package import BLEEmulation
package import BLEStack
package import BLEWire

extension VirtualController {
  /// Plays the peers behind this controller according to dialogues, and edits the packets that it sends to
  /// its host.
  ///
  /// If the host is a central, the virtual air must have a `SilentPeripheral` for each link. If it is a
  /// peripheral, centrals connect when it advertises.
  package func play(_ session: DialogueSession, _ end: DialogueEnd = .keepsLinks) {
    tester = DialogueTester(session, end)
  }
}

/// The fate of the links after the last step of a dialogue.
package enum DialogueEnd: Hashable, Sendable {
  case keepsLinks
  /// The peers disconnect. The next dialogue uses the next links.
  case leaves
}

/// A connectable device that sends nothing itself: a dialogue plays it.
package final class SilentPeripheral: VirtualPeripheral {
  private let number: UInt64
  private let session: DialogueSession

  /// Creates a peripheral.
  ///
  /// - Parameters:
  ///   - session: the dialogue that it plays.
  ///   - number: the index of its link, from 0; it is added to the address.
  package init(_ session: DialogueSession, number: Int = 0) {
    self.session = session
    self.number = UInt64(number)
  }

  package static func address(_ number: Int) -> DeviceAddress {
    DeviceAddress(bits: ScriptedPeripheral.defaultAddress.bits + UInt64(number), type: .public)
  }

  /// As many peripherals as the dialogues of a session need.
  package static func all(_ session: DialogueSession) -> [SilentPeripheral] {
    (0..<session.linkLimit).map { SilentPeripheral(session, number: $0) }
  }

  package var advertisement: Advertisement? {
    guard !session.isOver else { return nil }
    return Advertisement(
      address: Self.address(Int(number)), interval: .milliseconds(20),
      data: [0x02, 0x01, 0x06, 0x07, 0x09] + Array("script".utf8))
  }

  package var services: [GATTServiceDescription] { [] }
}

/// Plays the peers behind a virtual controller according to dialogues.
///
/// Packets of the host and its controller are collected while the controller works, and answered before its
/// packets are drained.
private final class DialogueTester: ControllerTester {
  private final class Link {
    let handle: ConnectionHandle
    var recombiner = L2CAPRecombiner()
    init(_ handle: ConnectionHandle) { self.handle = handle }
  }

  private enum Heard {
    case frame(UInt16, [UInt8], ConnectionHandle)
    case command([UInt8])
    case sent([UInt8])
  }

  /// Maximum number of data bytes in an ACL packet to the host.
  private static let fragmentByteCount = 251
  /// Address of the first central that connects to a peripheral.
  private static let firstCentral: UInt64 = 0x0000_5E00_5C11

  private let session: DialogueSession
  private var heard: [Heard] = []
  private var links: [Link] = []
  /// Indices of the one-time replacements that were already used.
  private var used: Set<Int> = []
  private var centrals: [VirtualController] = []
  /// Whether all links are up and the dialogue's first packets have not been sent yet.
  private var isBeginning = false
  private var counted: (name: String, links: Int)?

  private let end: DialogueEnd

  init(_ session: DialogueSession, _ end: DialogueEnd) {
    self.session = session
    self.end = end
  }

  // MARK: While the controller works

  func hear(command packet: Span<UInt8>) {
    heard.append(.command([UInt8](encoding: packet.count) { $0.append(packet) }))
  }

  /// Receives a data packet that the host sends on a link.
  ///
  /// - Returns: `false` if the link does not exist.
  func accept(_ packet: borrowing ACLPacket) -> Bool {
    let handle = packet.handle
    guard let link = links.first(where: { $0.handle == handle }) else { return false }
    try? link.recombiner.receive(packet) { frame in
      let payload = frame.payload
      heard.append(
        .frame(frame.channelID, [UInt8](encoding: payload.count) { $0.append(payload) }, handle))
    }
    return true
  }

  /// Returns the packets to send to the host instead of this one, H4 type first.
  func edit(_ packet: [UInt8]) -> [[UInt8]] {
    defer { heard.append(.sent(packet)) }
    for (index, replacement) in (session.dialogue?.replacements ?? []).enumerated() {
      guard !used.contains(index), replacement.original.begins(packet.span) else { continue }
      if replacement.isOnce { used.insert(index) }
      return replacement.packets.map { new in
        let start = new.start.octets.enumerated().map { $1 ?? (packet.indices.contains($0) ? packet[$0] : 0) }
        return start + (new.copiesRest ? packet.dropFirst(start.count) : [])
      }
    }
    return [packet]
  }

  // MARK: Before its packets are drained

  func work(for controller: VirtualController) {
    while !heard.isEmpty {
      let batch = heard
      heard = []
      for item in batch { take(item, controller) }
      if end == .leaves, session.isSettled { leave(controller) }
    }
    aim(controller)
  }

  /// Disconnects the peers of a finished dialogue. The last Disconnection Complete ends the dialogue.
  private func leave(_ controller: VirtualController) {
    if links.isEmpty { return session.end() }
    controller.disconnectPeers()
  }

  private func take(_ item: Heard, _ controller: VirtualController) {
    switch item {
    case .frame(let channel, let payload, let handle):
      let layer: ATTDialogue.Layer = channel == ATT.channelID ? .attribute : .channel(channel)
      say(session.receive(payload.span, layer, on: handle.rawValue), controller)
    case .command(let packet):
      if packet.count > 2, packet.span.u16(at: 1) == HCIOpcode.reset.rawValue { links = [] }
      say(session.receive(packet.span, .packet), controller)
    case .sent(let packet):
      let hasEnded = followLinks(packet)
      say(session.receive(packet.span, .sent), controller)
      if hasEnded, links.isEmpty, session.isSettled {
        session.end()
        used = []
      }
    }
  }

  /// Tracks links by Connection Complete, its enhanced form, and Disconnection Complete.
  ///
  /// - Returns: Whether a link has ended.
  private func followLinks(_ packet: [UInt8]) -> Bool {
    guard packet.count > 6, packet[0] == HCIPacketType.event.rawValue else { return false }
    let octets = packet.span
    if packet[1] == HCIEventCode.leMeta.rawValue, packet[3] == 0x01 || packet[3] == 0x0A, packet[4] == 0 {
      links.append(Link(ConnectionHandle(octets.u16(at: 5) & 0x0FFF)))
      isBeginning = links.count >= linkCount
      return false
    }
    guard packet[1] == HCIEventCode.disconnectionComplete.rawValue, packet[3] == 0 else { return false }
    let handle = ConnectionHandle(octets.u16(at: 4) & 0x0FFF)
    links.removeAll { $0.handle == handle }
    return true
  }

  /// Number of links of the current dialogue.
  private var linkCount: Int {
    guard let dialogue = session.dialogue else { return 1 }
    if counted?.name != dialogue.name { counted = (dialogue.name, dialogue.linkCount) }
    return counted?.links ?? 1
  }

  private func say(_ answers: [DialoguePlayer.Said], _ controller: VirtualController) {
    var answers = answers
    if isBeginning {
      isBeginning = false
      answers += session.begin()
    }
    for said in answers {
      let handle = ConnectionHandle(said.link)
      switch said.layer {
      case .attribute: send(said.octets, ATT.channelID, handle, controller)
      case .channel(let channel): send(said.octets, channel, handle, controller)
      case .packet: controller.put(said.octets)
      case .leave:
        controller.disconnectPeers { $0 == handle }
      case .sent, .usual: break
      }
    }
  }

  private func send(
    _ payload: [UInt8], _ channel: UInt16, _ handle: ConnectionHandle, _ controller: VirtualController
  ) {
    let frame = [UInt8](encoding: L2CAPFrame.headerByteCount + payload.count) {
      L2CAPFrame(channelID: channel, payload: payload.span).encode(into: &$0)
    }
    var offset = 0
    while offset < frame.count {
      let part = frame[offset..<min(offset + Self.fragmentByteCount, frame.count)]
      let boundary: ACLPacket.Boundary = offset == 0 ? .firstFlushable : .continuation
      controller.put(
        [UInt8](encoding: 1 + ACLPacket.headerByteCount + part.count) {
          $0.append(HCIPacketType.acl.rawValue)
          ACLPacket(handle: handle, boundary: boundary, data: part.span).encode(into: &$0)
        })
      offset += part.count
    }
  }

  /// Makes the next central connect to a host that advertises.
  private func aim(_ controller: VirtualController) {
    guard let dialogue = session.dialogue, dialogue.role == .peripheral, !session.isOver,
      let address = controller.hostAddress
    else { return }
    guard controller.linkCount < linkCount else { return }
    while centrals.count < linkCount {
      let address = DeviceAddress(bits: Self.firstCentral + UInt64(centrals.count), type: .public)
      centrals.append(VirtualController(.init(address: address), in: controller.air))
    }
    centrals.first { $0.linkCount == 0 }?.connect(to: address)
  }
}

public import BLEStack
public import BLEWire

extension VirtualController {
  /// Has dialogues play the peers behind this controller, and edit what it sends to its host.
  ///
  /// Where the host is central, its air must have a `SilentPeripheral` for each link; where it is peripheral, centrals come
  /// when it advertises.
  public func play(_ session: DialogueSession, _ end: DialogueEnd = .keepsLinks) {
    tester = DialogueTester(session, end)
  }
}

/// What becomes of the links when all of a dialogue was said.
public enum DialogueEnd: Hashable, Sendable {
  case keepsLinks
  /// The peers leave, and the next dialogue is played on the next links.
  case leaves
}

/// A device that can be connected to and says nothing: a dialogue speaks in its place.
public final class SilentPeripheral: VirtualPeripheral {
  private let number: UInt64
  private let session: DialogueSession

  /// - Parameters:
  ///   - session: the dialogue that it plays.
  ///   - number: of its link, from 0; it is added to the address.
  public init(_ session: DialogueSession, number: Int = 0) {
    self.session = session
    self.number = UInt64(number)
  }

  public static func address(_ number: Int) -> DeviceAddress {
    DeviceAddress(bits: ScriptedPeripheral.defaultAddress.bits + UInt64(number), type: .public)
  }

  /// As many as the dialogues of a session need.
  public static func all(_ session: DialogueSession) -> [SilentPeripheral] {
    (0..<session.linkLimit).map { SilentPeripheral(session, number: $0) }
  }

  public var advertisement: Advertisement? {
    guard !session.isOver else { return nil }
    return Advertisement(
      address: Self.address(Int(number)), interval: .milliseconds(20),
      data: [0x02, 0x01, 0x06, 0x07, 0x09] + Array("script".utf8))
  }

  public var services: [GATTServiceDescription] { [] }
}

/// The peers behind a virtual controller, as dialogues have them.
///
/// What the host and its controller say is kept while the controller works, and answered before its packets are drained.
final class DialogueTester {
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

  /// Data bytes of an ACL packet to the host.
  private static let fragmentByteCount = 251
  /// Addresses of the centrals that come to a peripheral.
  private static let firstCentral: UInt64 = 0x0000_5E00_5C11

  private let session: DialogueSession
  private var heard: [Heard] = []
  private var links: [Link] = []
  /// Replacements that were used up, by their place.
  private var used: Set<Int> = []
  private var centrals: [VirtualController] = []
  /// All links have come up, and what is said then waits for its turn.
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

  /// Takes data of the host in the place of the link.
  ///
  /// - Returns: `false` for a link that is not there.
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

  /// What the controller sends to its host, H4 type first, in the place of this packet.
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

  /// Has the peers of a dialogue that is over end their links; the last that is reported ended ends the dialogue.
  private func leave(_ controller: VirtualController) {
    if links.isEmpty { return session.end() }
    for end in controller.links {
      if let other = end.other { end.link?.terminate(from: other, .remoteUserTerminated) }
    }
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

  /// Connection Complete, its enhanced form, and Disconnection Complete.
  ///
  /// - Returns: whether a link has ended.
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

  /// Of the dialogue that is played.
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
      case .packet: put(said.octets, controller)
      case .leave:
        guard let end = controller.links.first(where: { $0.handle == handle }), let other = end.other else {
          continue
        }
        end.link?.terminate(from: other, .remoteUserTerminated)
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
      put(
        [UInt8](encoding: 1 + ACLPacket.headerByteCount + part.count) {
          $0.append(HCIPacketType.acl.rawValue)
          ACLPacket(handle: handle, boundary: boundary, data: part.span).encode(into: &$0)
        }, controller)
      offset += part.count
    }
  }

  private func put(_ packet: [UInt8], _ controller: VirtualController) {
    controller.outbox.append(HCIPacketType(rawValue: packet[0]), capacity: packet.count - 1) {
      $0.append(packet.span.extracting(1...))
    }
  }

  /// Has the next central connect to a host that advertises.
  private func aim(_ controller: VirtualController) {
    guard let dialogue = session.dialogue, dialogue.role == .peripheral, !session.isOver,
      let address = controller.advertisement?.address
    else { return }
    guard controller.links.count < linkCount else { return }
    while centrals.count < linkCount {
      let address = DeviceAddress(bits: Self.firstCentral + UInt64(centrals.count), type: .public)
      centrals.append(VirtualController(.init(address: address), in: controller.air))
    }
    guard let central = centrals.first(where: { $0.links.isEmpty }) else { return }
    central.outbox.removeAll()
    central.state.initiation = VirtualController.Initiation(
      peer: address, ownAddress: central.configuration.address,
      parameters: LinkParameters(interval: 24, latency: 0, supervisionTimeout: 400),
      window: VirtualController.ListeningWindow())
    controller.air.resumeAdvertising()
  }
}

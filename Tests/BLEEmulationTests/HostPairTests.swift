import BLEEmulation
import BLEStack
import BLEWire
import Testing

/// Our host with our virtual controller, in memory, with a clock that is advanced by hand.
struct HostPair: ~Copyable {
  var host = HCIHost()
  let controller: VirtualController
  var now = MonotonicTime(nanoseconds: 1_000_000_000)
  var reports: [DeviceAddress] = []
  var pdus: [[UInt8]] = []
  var events: [HCIHostEvent] = []

  init(_ configuration: VirtualController.Configuration = .init(), ring: EmulatedRing.Configuration = .init())
  {
    controller = VirtualController(configuration, peripherals: [EmulatedRing(ring)])
    host.start()
  }

  /// Transfers packets in both directions until neither side has any.
  mutating func run() throws {
    var isQuiet = false
    while !isQuiet {
      isQuiet = true
      while let packet = host.nextPacket(now: now) {
        isQuiet = false
        controller.receive(packet.span, now: now)
      }
      controller.advance(to: now)
      var fromController: [[UInt8]] = []
      controller.drain { packet in
        fromController.append([UInt8](encoding: packet.count) { $0.append(packet) })
      }
      for packet in fromController {
        isQuiet = false
        try host.receive(packet.span, now: now) {
          reports.append($0.address)
        } attribute: { _, pdu in
          pdus.append([UInt8](encoding: pdu.count) { $0.append(pdu) })
        }
      }
      events += host.takeEvents()
    }
  }

  mutating func advance(_ duration: Duration) throws {
    now = now.advanced(by: duration)
    try run()
  }

  mutating func connect(_ peer: DeviceAddress) throws -> ConnectionHandle? {
    if host.controller.usesExtendedCommands {
      _ = host.submit(LEExtendedCreateConnection(to: peer, ownType: .public, parameters: .default))
    } else {
      _ = host.submit(LECreateConnection(to: peer, ownType: .public, parameters: .default))
    }
    try run()
    for _ in 0..<20 { try advance(.milliseconds(100)) }
    for case .connected(let link) in events { return link.handle }
    return nil
  }
}

private let ringAddress = EmulatedRing.Configuration().address

struct HostPairTests {
  @Test(arguments: [VirtualController.Configuration.CommandSet.legacy, .extended])
  func startsUpAndConnects(_ commandSet: VirtualController.Configuration.CommandSet) throws {
    var pair = HostPair(.init(commandSet: commandSet))
    try pair.run()
    guard case .ready(let controller)? = pair.events.first else {
      Issue.record("no ready event")
      return
    }
    #expect(controller.address.description == "00:00:5E:00:53:01")
    #expect(controller.aclByteCount == 251)
    #expect(controller.aclPacketCount == 8)
    #expect(controller.usesExtendedCommands == (commandSet == .extended))

    let link = try pair.connect(ringAddress)
    let handle = try #require(link)
    let request: [UInt8] = [0x02, 0x05, 0x02]
    let isSent = pair.host.send(request.span, on: handle)
    #expect(isSent)
    try pair.run()
    // Exchange MTU Response, Core 5.4, Vol 3, Part F, 3.4.2.2.
    #expect(pair.pdus.contains { $0.first == 0x03 && $0.count == 3 })

    _ = pair.host.submit(Disconnect(handle))
    try pair.run()
    #expect(pair.events.contains(.disconnected(handle, reason: .localHostTerminated)))
    let isSentAgain = pair.host.send(request.span, on: handle)
    #expect(!isSentAgain)
  }

  @Test func fragmentsToTheControllersBuffers() throws {
    var pair = HostPair(.init(aclByteCount: 27, aclPacketCount: 1))
    try pair.run()
    let link = try pair.connect(ringAddress)
    let handle = try #require(link)
    let mtu: [UInt8] = [0x02, 0x05, 0x02]
    _ = pair.host.send(mtu.span, on: handle)
    try pair.run()
    // A Write Request of 120 bytes goes in five fragments through one buffer; the ring refuses its length.
    let write: [UInt8] = [0x12, 0x10, 0x00] + [UInt8](repeating: 0xA1, count: 117)
    _ = pair.host.send(write.span, on: handle)
    let waiting = pair.host.waitingFragments(handle)
    #expect(waiting == 5)
    try pair.run()
    let left = pair.host.waitingFragments(handle)
    #expect(left == 0)
    #expect(pair.pdus.contains { $0.first == 0x01 && $0[1] == 0x12 || $0.first == 0x13 })
    #expect(pair.controller.faults == 0)
  }

  @Test func givesUpASilentController() {
    var host = HCIHost()
    host.start()
    let start = MonotonicTime(nanoseconds: 0)
    let reset = host.nextPacket(now: start)
    #expect(reset == [0x01, 0x03, 0x0C, 0x00])
    // One credit until the controller returns more.
    let second = host.nextPacket(now: start)
    #expect(second == nil)
    let deadline = host.deadline
    #expect(deadline == start.advanced(by: .seconds(2)))
    host.expire(now: start.advanced(by: .milliseconds(1999)))
    let early = host.takeEvents()
    #expect(early.isEmpty)
    host.expire(now: start.advanced(by: .seconds(2)))
    let late = host.takeEvents()
    #expect(late == [.failed(.commandTimedOut(.reset))])
  }

  @Test func holdsDataBackUntilItsLinkIsAnnounced() throws {
    var pair = HostPair()
    try pair.run()
    _ = pair.host.submit(LECreateConnection(to: ringAddress, ownType: .public, parameters: .default))
    // ACL on handle 0x0001 with a notification, then LE Connection Complete with that handle.
    let data: [UInt8] = [0x02, 0x01, 0x20, 0x08, 0x00, 0x04, 0x00, 0x04, 0x00, 0x1B, 0x12, 0x00, 0x55]
    let complete: [UInt8] = [
      0x04, 0x3E, 0x13, 0x01, 0x00, 0x01, 0x00, 0x00, 0x00, 0xB2, 0xA1, 0x00, 0x0D, 0xCB, 0x70, 0x18, 0x00,
      0x00, 0x00, 0x2A, 0x00, 0x00,
    ]
    var pdus: [[UInt8]] = []
    for packet in [data, complete] {
      try pair.host.receive(packet.span, now: pair.now) { _ in
      } attribute: { _, pdu in
        pdus.append([UInt8](encoding: pdu.count) { $0.append(pdu) })
      }
    }
    #expect(pdus == [[0x1B, 0x12, 0x00, 0x55]])
  }

  @Test func answersTheSignallingChannel() throws {
    var pair = HostPair()
    try pair.run()
    let link = try pair.connect(ringAddress)
    let handle = try #require(link)
    func acl(_ payload: [UInt8]) -> [UInt8] {
      let low = UInt8(handle.rawValue & 0xFF)
      return [0x02, low, 0x20, UInt8(payload.count + 4), 0x00, UInt8(payload.count), 0x00, 0x05, 0x00]
        + payload
    }
    // Connection Parameter Update Request 0x12, identifier 1: 100–125 ms, latency 4, 5 s (capture CAP2).
    let request: [UInt8] = [0x12, 0x01, 0x08, 0x00, 0x50, 0x00, 0x64, 0x00, 0x04, 0x00, 0xF4, 0x01]
    // A timeout shorter than the latency allows; and an undefined code.
    let bad: [UInt8] = [0x12, 0x02, 0x08, 0x00, 0x50, 0x00, 0x64, 0x00, 0x1E, 0x00, 0x0A, 0x00]
    let unknown: [UInt8] = [0x55, 0x03, 0x00, 0x00]
    var sent: [[UInt8]] = []
    for payload in [request, bad, unknown] {
      let packet = acl(payload)
      try pair.host.receive(packet.span, now: pair.now) { _ in
      } attribute: { _, _ in
      }
      while let packet = pair.host.nextPacket(now: pair.now) { sent.append(packet) }
    }
    let answers = sent.filter { $0[0] == 0x02 }.map { Array($0.dropFirst(9)) }
    #expect(
      answers == [
        [0x13, 0x01, 0x02, 0x00, 0x00, 0x00], [0x13, 0x02, 0x02, 0x00, 0x01, 0x00],
        [0x01, 0x03, 0x02, 0x00, 0x00, 0x00],
      ])
    // LE Connection Update with the requested parameters, Core 5.4, Vol 4, Part E, 7.8.18.
    let commands = sent.filter { $0[0] == 0x01 }
    #expect(commands.count == 1)
    #expect(
      commands.first.map { Array($0.dropFirst()) } == [
        0x13, 0x20, 0x0E, UInt8(handle.rawValue & 0xFF), 0x00, 0x50, 0x00, 0x64, 0x00, 0x04, 0x00, 0xF4, 0x01,
        0x00, 0x00, 0x00, 0x00,
      ])
  }
}

struct H4FramerTests {
  /// Command Complete for Reset, and an ACL packet with an ATT notification.
  private let packets: [[UInt8]] = [
    [0x04, 0x0E, 0x04, 0x01, 0x03, 0x0C, 0x00],
    [0x02, 0x40, 0x20, 0x07, 0x00, 0x03, 0x00, 0x04, 0x00, 0x1B, 0x12, 0x00],
  ]

  private func frames(_ chunks: [[UInt8]]) -> (packets: [[UInt8]], garbage: Int) {
    var framer = H4Framer(from: .controllerToHost)
    var found: [[UInt8]] = []
    for chunk in chunks {
      framer.receive(chunk.span) { packet in
        found.append([UInt8](encoding: packet.count) { $0.append(packet) })
      }
    }
    return (found, framer.garbage)
  }

  @Test func cutsAtEveryBorder() {
    let stream = packets.flatMap { $0 }
    for border in 0...stream.count {
      let result = frames([Array(stream[..<border]), Array(stream[border...])])
      #expect(result.packets == packets)
      #expect(result.garbage == 0)
    }
    #expect(frames(stream.map { [$0] }).packets == packets)
  }

  @Test func findsItsWayAfterGarbage() {
    let garbage: [UInt8] = [0x00, 0xFF, 0x7E, 0x01]
    let result = frames([packets[0] + garbage + packets[1]])
    #expect(result.packets == packets)
    #expect(result.garbage == garbage.count)
  }

  @Test func disbelievesAnOversizedLength() {
    // ACL with a length of 65,535.
    let result = frames([[0x02, 0x40, 0x20, 0xFF, 0xFF] + packets[0]])
    #expect(result.packets == [packets[0]])
    #expect(result.garbage == 5)
  }
}

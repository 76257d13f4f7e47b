import BLEEmulation
import BLEStack
import BLEWire
import Glibc

/// Our host and our virtual controller with a ring, in memory, on one thread.
private struct Pair: ~Copyable {
  var host = HCIHost()
  let controller: VirtualController
  var client = ATTClientMachine()
  var now = MonotonicTime(nanoseconds: 1_000_000_000)
  var link: ConnectionHandle?
  var samples = 0
  var sum: UInt64 = 0
  /// One packet with a notification, as the controller sends it.
  var packet: [UInt8] = []

  init(_ ring: EmulatedRing.Configuration) {
    controller = VirtualController(peripherals: [EmulatedRing(ring)])
    host.start()
  }

  /// Carries packets both ways until neither side has any.
  mutating func run() throws {
    while try turn() {}
    for case .connected(let link) in host.takeEvents() { self.link = link.handle }
  }

  private mutating func turn() throws -> Bool {
    var isQuiet = true
    while let packet = host.nextPacket(now: now) {
      isQuiet = false
      controller.receive(packet.span, now: now)
    }
    controller.advance(to: now)
    let time = now
    try controller.drain { (packet: Span<UInt8>) throws(WireError) in
      isQuiet = false
      if packet.count == 28, packet[9] == 0x1B, self.packet.isEmpty {
        for index in packet.indices { self.packet.append(packet[index]) }
      }
      try receive(packet, time)
    }
    return !isQuiet
  }

  mutating func receive(_ packet: Span<UInt8>, _ now: MonotonicTime) throws(WireError) {
    try host.receive(packet, now: now) { _ in
    } attribute: { _, pdu in
      _ = try? client.receive(pdu, now: now) { notification in
        guard let value = try? Micro.decode(notification.value) else { return }
        samples += 1
        sum &+= value
      }
    }
  }

  mutating func advance(_ duration: Duration) throws {
    now = now.advanced(by: duration)
    try run()
  }

  /// Connects, subscribes, and starts the stream.
  mutating func start(_ peer: DeviceAddress) throws {
    try run()
    _ = host.submit(LECreateConnection(to: peer, ownType: .public, parameters: .default))
    for _ in 0..<40 where link == nil { try advance(.milliseconds(50)) }
    try send([0x12, 0x13, 0x00, 0x01, 0x00])
    try send([0x12, 0x10, 0x00, 0xA1, 0x04] + [UInt8](repeating: 0, count: 13) + [0xA5])
  }

  private mutating func send(_ pdu: [UInt8]) throws {
    guard let link else { fatalError("the emulated ring did not connect") }
    client.begin(pdu.span, now: now)
    _ = host.send(pdu.span, on: link)
    try advance(.milliseconds(10))
  }
}

extension Micro {
  private static func pair() throws -> Pair {
    var ring = EmulatedRing.Configuration()
    ring.notificationsPerSecond = 100_000
    ring.behaviour = .quiet
    ring.advertisingInterval = .milliseconds(20)
    var pair = Pair(ring)
    try pair.start(ring.address)
    return pair
  }

  /// The host's side alone: one packet with a notification, through HCI, L2CAP, ATT and the ring's decoder.
  static func receiveByHost(_ count: Int) throws -> UInt64 {
    var pair = try pair()
    for _ in 0..<100 where pair.packet.isEmpty { try pair.advance(.milliseconds(10)) }
    let (packet, now) = (pair.packet, pair.now)
    guard !packet.isEmpty else { fatalError("the emulated ring sent nothing") }
    let begin = processorSeconds()
    for number in 0..<count {
      _ = opaque(number)
      try pair.receive(packet.span, now)
    }
    report("host", count, processorSeconds() - begin)
    return pair.sum
  }

  /// Both sides: the ring and its controller too.
  static func link(_ count: Int) throws -> UInt64 {
    var pair = try pair()
    let first = pair.samples
    let begin = processorSeconds()
    while pair.samples < first + count { try pair.advance(.milliseconds(1)) }
    report("link", pair.samples - first, processorSeconds() - begin)
    return pair.sum
  }

  private static func report(_ name: String, _ count: Int, _ seconds: Double) {
    print(
      "\(name): \(Int(Double(count) / seconds)) notifications/s of one core, \(seconds * 1e9 / Double(count)) ns each"
    )
  }

  private static func processorSeconds() -> Double {
    var time = timespec()
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
    return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
  }
}

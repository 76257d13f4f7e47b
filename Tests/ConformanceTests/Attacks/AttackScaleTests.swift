import BLEEmulation
import BLEHost
import BLELinux
import BLEPeripheral
import BLEStack
import BLEWire
import Dialogues
import Foundation
import PeripheralKit
import TestKit
import Testing

/// Attacks that need large numbers. Resources are compared with those at the beginning, each in a process of
/// its own.
@Suite(.timeLimit(.minutes(10))) struct AttackScaleTests {
  /// Resources of this process: its own resident memory in KiB, descriptors and threads. Pages of files, such as code, are not
  /// counted: they come and go with the machine's load.
  struct Load: CustomStringConvertible {
    let memory: Int
    let descriptors: Int
    let threads: Int

    static func now() -> Load {
      func count(_ folder: String) -> Int {
        (try? FileManager.default.contentsOfDirectory(atPath: folder).count) ?? 0
      }
      let statm = (try? String(contentsOfFile: "/proc/self/statm", encoding: .utf8)) ?? ""
      let pages = statm.split(separator: " ").compactMap { Int($0) }
      return Load(
        memory: pages.count > 2 ? (pages[1] - pages[2]) * 4 : 0, descriptors: count("/proc/self/fd"),
        threads: count("/proc/self/task"))
    }

    /// Waits until this process uses no more resources than before, because a thread that was told to end may
    /// still be running; otherwise records an issue.
    static func requireNoMore(than before: Load, memory allowance: Int) async {
      func isNoMore(_ load: Load) -> Bool {
        load.memory <= before.memory + allowance && load.descriptors <= before.descriptors
          && load.threads <= before.threads
      }
      do {
        try await eventually("no more than before", within: .seconds(20)) { isNoMore(.now()) }
      } catch {
        Issue.record("before: \(before); now: \(Load.now())")
      }
    }

    var description: String { "\(memory) KiB, \(descriptors) descriptors, \(threads) threads" }
  }

  /// 10⁵ fragments of 0 to 3 bytes, with all flags, over 16 links. Complete frames still pass, and no more
  /// than the longest frame of each link is stored: 16 × 2 kB.
  @Test func tinyFragments() async {
    await #expect(processExitsWith: .success) {
      var pair = AttackPair(links: 16)
      pair.connect()
      precondition(pair.handles.count == 16)
      var random = SeededGenerator(state: 39)
      var before = Load.now()
      for number in 0..<100_000 {
        if number == 10_000 { before = .now() }
        let count = Int.random(in: 0...3, using: &random)
        let word = pair.handles[number % 16].rawValue | UInt16.random(in: 0...2, using: &random) << 12
        let data = (0..<count).map { _ in UInt8.random(in: 0...255, using: &random) }
        pair.receive([0x02, UInt8(truncatingIfNeeded: word), UInt8(word >> 8), UInt8(count), 0] + data)
      }
      for handle in pair.handles {
        pair.pdus = []
        pair.receive([0x02, UInt8(handle.rawValue), 0x20, 6, 0, 2, 0, 4, 0, 0x13, 0x77])
        precondition(pair.pdus == [[0x13, 0x77]], "link \(handle)")
      }
      precondition(pair.host.linkCount == 16)
      precondition(pair.host.statistics.droppedFrames > 30_000, "\(pair.host.statistics)")
      await Load.requireNoMore(than: before, memory: 1024)
    }
  }

  /// Frames of the maximum length begin on 16 links and never end.
  @Test func framesThatNeverEnd() async {
    await #expect(processExitsWith: .success) {
      var pair = AttackPair(links: 16)
      pair.connect()
      var before = Load.now()
      let lengths: [UInt16] = [2048, 2048, 2049, 0x8000, 0xFFFF]
      for (round, length) in lengths.enumerated() {
        // The first one is what a peer may send, and its buffer is kept.
        if round == 1 { before = .now() }
        for number in 0..<16 * 300 {
          let handle = UInt8(pair.handles[number % 16].rawValue)
          let isStart = number < 16
          let head = [UInt8(truncatingIfNeeded: length), UInt8(length >> 8), 4, 0]
          let data = (isStart ? head : []) + [UInt8](repeating: 0xA5, count: isStart ? 247 : 251)
          pair.receive([0x02, handle, isStart ? 0x20 : 0x10, 251, 0] + data)
        }
      }
      precondition(pair.host.linkCount == 16)
      await Load.requireNoMore(than: before, memory: 256)
    }
  }

  /// Two centrals connect, send requests and disconnect, 10,000 times.
  @Test func reconnects() async {
    await #expect(processExitsWith: .success) {
      func dialogue(_ count: Int) -> ATTDialogue {
        var dialogue = ATTDialogue("reconnects")
        dialogue.role = .peripheral
        for _ in 0..<count {
          for link in [ATTDialogue.firstLink, ATTDialogue.firstLink + 1] {
            for (side, octets) in [(ATTDialogue.Side.server, "0a0300"), (.client, "0b446576696365")] {
              var step = ATTDialogue.Step(side, [.init(octetsOf(octets))])
              step.link = link
              dialogue.steps.append(step)
            }
          }
          for link in [ATTDialogue.firstLink, ATTDialogue.firstLink + 1] {
            var step = ATTDialogue.Step(.server, [])
            (step.layer, step.link) = (.leave, link)
            dialogue.steps.append(step)
          }
        }
        return dialogue
      }
      // One-time growth happens in the first run.
      try await Self.serve(dialogue(200))
      let before = Load.now()
      try await Self.serve(dialogue(5000))
      await Load.requireNoMore(than: before, memory: 6 * 1024)
    }
  }

  /// Connects to a device, reads it and disconnects, 10,000 times.
  @Test func reconnectsToADevice() async {
    await #expect(processExitsWith: .success) {
      let reads = 10_200
      var dialogue = ATTDialogue("reconnects")
      dialogue.role = .central
      for _ in 0..<reads {
        var leave = ATTDialogue.Step(.server, [])
        leave.layer = .leave
        dialogue.steps += [
          .init(.client, [.init(octetsOf("0a0300"))]), .init(.server, [.init(octetsOf("0b05"))]), leave,
        ]
      }
      let link = try await DialogueLink.open(dialogue)
      var before = Load.now()
      for number in 0..<reads {
        // Memory that grows only once has been allocated by then.
        if number == 200 { before = .now() }
        let connection = try await link.adapter.connect(
          to: SilentPeripheral.address(0), asking: LinkRequest(), timeout: .seconds(10), tap: nil)
        let value = try await connection.read(AttributeHandle(3))
        precondition(value == [5])
        // The host disconnects in every other case, unless the device does so first.
        if number % 2 == 0 { await connection.close() } else { _ = await connection.ended() }
      }
      await Load.requireNoMore(than: before, memory: 1024)
      await link.close()
    }
  }

  private static func serve(_ dialogue: ATTDialogue) async throws {
    let link = try await DialogueLink.open(dialogue)
    let advertisement = DeviceAdvertisement(name: "Device")
    try await link.adapter.advertise(advertisement, services: VirtualDevice.services) { _ in
      try await eventually("the last of them", within: .seconds(300)) { link.session.isSettled }
    }
    await link.close()
    link.session.finish()
    precondition(link.session.outcomes.last?.mismatch == nil, "\(link.session.outcomes)")
  }

  /// The stream of a start-up and a link cut at each byte, with garbage between packets, byte by byte.
  @Test func cutsOfTheStream() {
    var recorded = AttackPair(links: 1)
    recorded.connect()
    recorded.receive([0x02, 0x40, 0x20, 6, 0, 2, 0, 4, 0, 0x13, 0x77])
    let packets = recorded.received
    let stream = packets.flatMap { $0 }
    #expect(stream.count > 200)
    for cut in 0...stream.count {
      var pair = AttackPair(links: 1)
      pair.receive(stream: Array(stream[..<cut]))
      pair.receive(stream: Array(stream[cut...]))
      #expect(pair.pdus == [[0x13, 0x77]] && pair.garbage == 0, "\(cut)")
    }
    var single = AttackPair(links: 1)
    for byte in stream { single.receive(stream: [byte]) }
    #expect(single.pdus == [[0x13, 0x77]])
  }

  /// Unknown packet types, and lengths beyond a controller's maximum, before each packet of a start-up.
  @Test(arguments: [
    "00", "06", "ff", "01", "00ff06", "02ffffffff", "02400110 10".filter { $0 != " " }, "0540ffff3f",
    "aa*300",
  ])
  func garbageInTheStream(_ text: String) {
    let garbage = octetsOf(text == "aa*300" ? String(repeating: "aa", count: 300) : text)
    var recorded = AttackPair(links: 1)
    recorded.connect()
    recorded.receive([0x02, 0x40, 0x20, 6, 0, 2, 0, 4, 0, 0x13, 0x77])
    var pair = AttackPair(links: 1)
    for packet in recorded.received { pair.receive(stream: garbage + packet) }
    #expect(pair.pdus == [[0x13, 0x77]])
    #expect(pair.garbage == garbage.count * recorded.received.count)
    #expect(pair.host.linkCount == 1)
  }
}

/// Our host and a virtual controller in memory, with devices that never respond.
private struct AttackPair: ~Copyable {
  var host = HCIHost()
  private let controller: VirtualController
  private var now = MonotonicTime(nanoseconds: 1_000_000_000)
  private var framer = H4Framer(from: .controllerToHost)
  private let linkCount: Int
  /// Packets that the host received, if there is one link.
  var received: [[UInt8]] = []
  var pdus: [[UInt8]] = []
  var handles: [ConnectionHandle] = []

  init(links: Int) {
    linkCount = links
    var dialogue = ATTDialogue("none")
    dialogue.role = .central
    var step = ATTDialogue.Step(.client, [.init([0xFF])])
    step.link = ATTDialogue.firstLink + UInt16(links - 1)
    dialogue.steps = [step]
    let session = DialogueSession([dialogue])
    controller = VirtualController(
      .init(), peripherals: SilentPeripheral.all(session), air: VirtualAir.Configuration(pace: .immediate))
    host.start()
  }

  var garbage: Int { framer.garbage }

  /// Starts the host, and connects to each device.
  mutating func connect() {
    run()
    for number in 0..<linkCount {
      _ = host.submit(
        LECreateConnection(to: SilentPeripheral.address(number), ownType: .public, parameters: .default))
      for _ in 0..<30 where handles.count == number {
        now = now.advanced(by: .milliseconds(20))
        run()
      }
    }
  }

  private mutating func run() {
    var isQuiet = false
    while !isQuiet {
      isQuiet = true
      while let packet = host.nextPacket(now: now) { controller.receive(packet.span, now: now) }
      controller.advance(to: now)
      var sent: [[UInt8]] = []
      controller.drain { packet in sent.append([UInt8](encoding: packet.count) { $0.append(packet) }) }
      for packet in sent {
        isQuiet = false
        receive(packet)
      }
    }
  }

  mutating func receive(_ packet: [UInt8]) {
    if linkCount == 1 { received.append(packet) }
    take(packet)
  }

  /// Receives through the framer. Packets that the host sends are dropped.
  mutating func receive(stream: [UInt8]) {
    var packets: [[UInt8]] = []
    framer.receive(stream.span) { packet in
      packets.append([UInt8](encoding: packet.count) { $0.append(packet) })
    }
    for packet in packets {
      while host.nextPacket(now: now) != nil {}
      take(packet)
      if host.controller.aclByteCount == 251, host.linkCount == 0 {
        _ = host.submit(
          LECreateConnection(to: SilentPeripheral.address(0), ownType: .public, parameters: .default))
      }
    }
  }

  private mutating func take(_ packet: [UInt8]) {
    try? host.receive(packet.span, now: now) { _ in
    } attribute: { _, pdu in
      pdus.append([UInt8](encoding: pdu.count) { $0.append(pdu) })
    }
    for case .connected(let link) in host.takeEvents() { handles.append(link.handle) }
  }
}

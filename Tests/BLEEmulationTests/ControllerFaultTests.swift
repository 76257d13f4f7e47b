import BLEEmulation
import BLEStack
import BLEWire
import Testing

/// A misbehaving controller, and our host's reaction.
@Suite struct ControllerFaultTests {
  private static let readBDADDR = "01091000"
  private static let address = "040e0a010910000153005e0000"

  private func bench() -> AirBench {
    let bench = AirBench([EmulatedRing(ControllerBench.quietRing)], .init())
    bench.setUp()
    bench.forget()
    return bench
  }

  private func inject(_ fault: ControllerFault, _ bench: AirBench) {
    bench.host.controller.inject(fault, now: bench.now)
  }

  private func texts(_ bench: AirBench) -> [String] {
    defer { bench.forget() }
    return bench.host.packets.map(\.text)
  }

  @Test("a command is refused so many times, in the form of its answer")
  func refusal() {
    let bench = bench()
    inject(.refuse(.readBDADDR, .init(rawValue: 0x03), times: 2), bench)
    inject(.refuse(.leCreateConnection, .init(rawValue: 0x0D), times: nil), bench)
    for _ in 0..<3 { bench.send(Self.readBDADDR) }
    #expect(texts(bench) == ["040e0401091003", "040e0401091003", Self.address])
    for _ in 0..<3 { bench.send(ControllerBench.createConnection) }
    #expect(texts(bench) == Array(repeating: "040f040d010d20", count: 3))
    bench.host.controller.clearFaults()
    bench.send(ControllerBench.createConnection)
    #expect(texts(bench) == ["040f0400010d20"])
  }

  @Test("silence: no answer, no event, and nothing is done")
  func silence() {
    let bench = bench()
    inject(.silence, bench)
    bench.send(ControllerBench.createConnection)
    bench.wait(.seconds(1))
    #expect(texts(bench) == [])
    bench.host.controller.clearFaults()
    bench.send(Self.readBDADDR)
    #expect(texts(bench) == [Self.address])
  }

  @Test("silence until a reset: only HCI Reset is answered, and afterwards all is as after power-on")
  func silenceUntilReset() {
    let bench = bench()
    inject(.silenceUntilReset, bench)
    bench.send(Self.readBDADDR)
    bench.wait(.seconds(60))
    #expect(texts(bench) == [])
    // HCI Reset and its Command Complete: Core 5.4, Vol 4, Part E, 7.3.2.
    bench.send("01030c00")
    bench.send(Self.readBDADDR)
    #expect(texts(bench) == ["040e0401030c00", Self.address])
  }

  @Test("our host gives up a controller that falls silent, and resets one that reports a failure")
  func host() throws {
    var pair = HostPair()
    try pair.run()
    pair.controller.inject(.hardwareError(0x42), now: pair.now)
    try pair.run()
    #expect(pair.events.contains(.restarting(.hardwareError(0x42))))
    guard case .ready = pair.events.last else {
      Issue.record("it is not up again")
      return
    }

    pair = HostPair()
    try pair.run()
    pair.controller.inject(.silence, now: pair.now)
    let id = pair.host.submit(LESetScanEnable(.reportAll))
    #expect(id != nil)
    try pair.run()
    let next = pair.host.deadline
    let deadline = try #require(next)
    pair.host.expire(now: deadline)
    let events = pair.host.takeEvents()
    #expect(events == [.failed(.commandTimedOut(.leSetScanEnable))])
  }

  @Test("the hardware error comes in its event, unless it is masked")
  func hardwareError() {
    let bench = bench()
    inject(.hardwareError(0x42), bench)
    bench.send("01010c08 ff7fffffffffff3f")
    inject(.hardwareError(0x42), bench)
    bench.send(Self.readBDADDR)
    #expect(texts(bench) == ["04100142", "040e0401010c00", Self.address])
  }

  @Test("without Number Of Completed Packets our host sends what it was promised buffers for, and no more")
  func withheld() throws {
    var pair = HostPair(.init(aclPacketCount: 3))
    try pair.run()
    let link = try pair.connect(EmulatedRing.Configuration().address)
    let handle = try #require(link)
    pair.controller.inject(.withholdCompletedPackets, now: pair.now)
    let before = pair.pdus.count
    let request: [UInt8] = [0x0A, 0x03, 0x00]
    for _ in 0..<5 { _ = pair.host.send(request.span, on: handle) }
    try pair.run()
    #expect(pair.pdus.count == before + 3)
    let waiting = pair.host.waitingFragments(handle)
    #expect(waiting == 2)
  }

  @Test("a wrong opcode: the response matches no command")
  func wrongOpcode() throws {
    let bench = bench()
    inject(.wrongOpcode(times: 1), bench)
    bench.send(Self.readBDADDR)
    bench.send(Self.readBDADDR)
    #expect(texts(bench) == ["040e0a01f610000153005e0000", Self.address])
    inject(.wrongOpcode(times: 1), bench)
    bench.send(ControllerBench.createConnection)
    #expect(texts(bench) == ["040f040001f220"])

    var pair = HostPair()
    try pair.run()
    pair.controller.inject(.wrongOpcode(times: 1), now: pair.now)
    _ = pair.host.submit(LESetScanEnable(.reportAll))
    let seen = pair.events.count
    try pair.run()
    #expect(pair.events.count == seen)
    let next = pair.host.deadline
    let deadline = try #require(next)
    pair.host.expire(now: deadline)
    let events = pair.host.takeEvents()
    #expect(events == [.failed(.commandTimedOut(.leSetScanEnable))])
  }

  @Test("packets of a handle that is not there are dropped by our host")
  func staleHandle() throws {
    let bench = bench()
    bench.send(ControllerBench.createConnection)
    _ = try #require(bench.wait(for: ControllerBench.connected))
    bench.forget()
    inject(.staleHandle(times: 1), bench)
    bench.send(ControllerBench.att("020502"))
    #expect(
      texts(bench) == [
        "04130501ff0e0100", ControllerBench.completedPacket, "02ff2e07000300040003f400",
        ControllerBench.att("03f400", "20"),
      ])

    var pair = HostPair()
    try pair.run()
    let link = try pair.connect(EmulatedRing.Configuration().address)
    let handle = try #require(link)
    let before = pair.pdus.count
    pair.controller.inject(.staleHandle(times: 1), now: pair.now)
    let request: [UInt8] = [0x0A, 0x03, 0x00]
    _ = pair.host.send(request.span, on: handle)
    try pair.run()
    #expect(pair.pdus.count == before + 1)
  }

  @Test("an event twice")
  func duplicates() {
    let bench = bench()
    inject(.duplicateEvents(times: 1), bench)
    bench.send(Self.readBDADDR)
    bench.send(Self.readBDADDR)
    #expect(texts(bench) == [Self.address, Self.address, Self.address])
  }

  @Test("an answer that comes late")
  func delay() throws {
    let bench = bench()
    inject(.delayAnswers(.milliseconds(1500), times: 1), bench)
    let start = bench.now
    bench.send(Self.readBDADDR)
    bench.send("01031000")
    #expect(texts(bench) == ["040e0c010310000000000060000000"])
    let answer = try #require(bench.wait(for: Self.address))
    #expect(start.duration(to: answer.time) == .milliseconds(1500))
    #expect(bench.air.deadline == nil)
  }

  @Test("faults of the configuration are in force from the start")
  func configuration() {
    let address = EmulatedRing.Configuration().address
    let bench = AirBench(
      [EmulatedRing(ControllerBench.quietRing)], .init(pace: .air, faults: [.outOfRange(address)]),
      controllers: [.init(faults: [.refuse(.readBDADDR, .init(rawValue: 0x03), times: 1)])])
    bench.setUp()
    bench.forget()
    bench.send(Self.readBDADDR)
    bench.send(Self.readBDADDR)
    #expect(texts(bench) == ["040e0401091003", Self.address])
    bench.send("010c2002 0100")
    bench.wait(.seconds(1))
    #expect(texts(bench) == ["040e04010c2000"])
    bench.air.inject(.inRange(address), now: bench.now)
    bench.wait(.seconds(1))
    #expect(texts(bench).count >= 9)
  }
}

import BLEEmulation
import BLEStack
import BLEWire
import TestKit
import Testing

/// The ring compared with reference `colmi-ring-protocol.md` and captures in `ring-test-vectors.json`.
@Suite struct EmulatedRingTests {
  private func bench(_ change: (inout EmulatedRing.Configuration) -> Void = { _ in }) -> ControllerBench {
    var ring = ControllerBench.quietRing
    change(&ring)
    let bench = ControllerBench(VirtualController.Configuration(), [EmulatedRing(ring)])
    bench.connect()
    return bench
  }

  private static let subscribe = "12 1300 0100"
  private static let start = "12 1000 a10400000000000000000000000000a5"
  private static let stop = "12 1000 a10200000000000000000000000000a3"

  /// Values of notifications on the reply characteristic.
  private func values(_ packets: [String]) -> [[UInt8]] {
    packets.filter { $0.hasPrefix("024020") && $0.dropFirst(18).hasPrefix("1b1200") }
      .map { octetsOf(String($0.dropFirst(24))) }
  }

  /// Computed with Python's `cryptography` (AES-CMAC) from the table of Core 5.4, Vol 3, Part G, 7.3.1, and
  /// from the reference's handles and UUIDs.
  @Test(arguments: [
    (RingAttributes.Move.away, false, "2a645795e518b1d3e1a0354c13daa381"),
    (.away, true, "e2f6e72bfd60ec905e398a1f671c247b"), (.swapped, true, "52ac55f7f009fdc5648131bcf1b0ebb6"),
  ])
  func hashesItsAttributes(_ move: RingAttributes.Move, _ isMoved: Bool, _ hash: String) throws {
    var configuration = EmulatedRing.Configuration()
    configuration.attributes.kind = .hashed
    configuration.attributes.move = move
    configuration.attributes.moment = .betweenLinks
    let ring = EmulatedRing(configuration)
    if isMoved { ring.disconnected(now: MonotonicTime(nanoseconds: 0)) }
    #expect(ring.attributesVersion == (isMoved ? 1 : 0))
    let database = GATTServerDatabase(ring.services)
    let handle = try #require(database.valueHandle(of: .databaseHash))
    let value = try #require(database.value(of: handle))
    #expect(value.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined() == hash)
  }

  @Test("section 1: services, and the handles of captures CAP1 and CAP2")
  func table() {
    let bench = bench()
    #expect(bench.request("020002") == "03f400")
    #expect(
      bench.request("100100ffff0028") == "1106010004000118050009000018")
    #expect(
      bench.request("100a00ffff0028")
        == "11140e0013009ecadc240ee5a9e093f3a3b5f0ff406e14001900c75d2a01e36526af474e11d728f75bde")
    #expect(bench.request("101a00ffff0028") == "11061a0020000a18")
    #expect(
      bench.request("080e0013000328")
        == "09150f000c10009ecadc240ee5a9e093f3a3b50200406e11001012009ecadc240ee5a9e093f3a3b50300406e")
    #expect(bench.request("0413001300") == "050113000229")
    #expect(bench.request("0a2000") == "0b" + hexOf("R02_3.00.06_240523".utf8))
    #expect(bench.request("0a1e00") == "0b" + hexOf("R02_V3.0".utf8))
    #expect(bench.request("0a0700") == "0b" + hexOf("R02_A1B2".utf8))
    #expect(bench.request("0a1200") == "010a120002")
  }

  @Test(
    "section 3: commands and replies, as captured",
    arguments: [
      // req-battery, rsp-battery-64
      ("03000000000000000000000000000003", ["03400000000000000000000000000043"]),
      // req-set-time-20240101-utc, packet size as TAH saw it, rsp-set-time-capabilities-r02
      (
        "01240101000000010000000000000028",
        ["2ff10000000000000000000000000020", "01000100220000000001003001001066"]
      ),
      // req-device-support, rsp-device-support-rt11cr
      ("3c00000000000000000000000000003c", ["3c008c27002880000000000000000097"]),
      // err-dnd-unsupported
      ("06000000000000000000000000000006", ["86ee0000000000000000000000000074"]),
      // A wrong checksum, and a short frame.
      ("03000000000000000000000000000004", []), ("0303", []),
    ])
  func commands(command: String, replies: [String]) {
    let bench = bench()
    #expect(bench.request(Self.subscribe) == "13")
    let answers = bench.send(ControllerBench.att("121000" + command))
    #expect(answers.first == ControllerBench.completedPacket)
    #expect(answers.dropFirst().first == ControllerBench.att("13", "20"))
    #expect(values(answers).map { hexOf($0) } == replies)
  }

  @Test("replies go nowhere without a subscription")
  func unsubscribed() {
    #expect(bench().request("121000 03000000000000000000000000000003") == "13")
  }

  @Test("the stream begins with the captured frames, three a tick")
  func captured() {
    let bench = bench { $0.notificationsPerSecond = 3 }
    _ = bench.request(Self.subscribe)
    _ = bench.request(Self.start)
    #expect(values(bench.wait(milliseconds: 999)) == [])
    #expect(
      values(bench.wait(milliseconds: 1)).map { hexOf($0) } == [
        "a10100a000c20072009501000000000c", "a10229812acd29c1010c01000000003c",
        "a10312030b0d170400000000000000ec",
      ])
    #expect(
      values(bench.wait(milliseconds: 3000)).map { hexOf($0) }.enumerated()
        .filter { [0, 1, 2, 4, 5, 8].contains($0.offset) }.map(\.element) == [
          "a101004a0088004c0065010000000026", "a10200002acd29c1010c010000000092",
          "a10312010c00160e00000000000000e7", "a102066320281f5100d700000000009b",
          "a103000c1f06fb0300000000000000d3", "a103deb4fdc8fb3e0000000000000034",
        ])
    let last = bench.send(ControllerBench.att(Self.stop))
    #expect(last.count == 2)
    #expect(values(bench.wait(milliseconds: 3000)) == [])
  }

  @Test("3,000 frames in 10 s: checksums right, about 1 g, optical values inside their bounds")
  func generated() {
    let bench = bench { $0.notificationsPerSecond = 300 }
    _ = bench.request(Self.subscribe)
    _ = bench.request(Self.start)
    let frames = values(bench.wait(milliseconds: 10_000))
    #expect(frames.count == 3000)
    for frame in frames {
      #expect(frame.count == 16)
      #expect(frame[15] == frame.dropLast().reduce(0, &+))
      #expect(frame[0] == 0xA1)
    }
    for (index, frame) in frames.enumerated() { #expect(frame[1] == UInt8(index % 3 + 1)) }
    for frame in frames.dropFirst(12) where frame[1] == 3 {
      let axes = [2, 4, 6].map { place -> Double in
        let raw = Int(frame[place]) << 4 | Int(frame[place + 1] & 0x0F)
        return Double(raw >= 2048 ? raw - 4096 : raw) / 512
      }
      let magnitude = axes.map { $0 * $0 }.reduce(0, +).squareRoot()
      #expect(abs(magnitude - 1) < 0.03)
    }
    for frame in frames.dropFirst(12) where frame[1] != 3 {
      let fields = [2, 4, 6, 8].map { Int(frame[$0]) << 8 | Int(frame[$0 + 1]) }
      #expect((fields[2]...fields[1]).contains(fields[0]))
      #expect(fields[3] == fields[1] - fields[2])
    }
    // A pulse: the green channel varies by most of its range.
    let green = frames.filter { $0[1] == 2 }.dropFirst(4).map { Int($0[2]) << 8 | Int($0[3]) }
    #expect((green.max() ?? 0) - (green.min() ?? 0) > 200)
  }

  @Test("the same stream each time")
  func deterministic() {
    func stream() -> [[UInt8]] {
      let bench = bench { $0.notificationsPerSecond = 300 }
      _ = bench.request(Self.subscribe)
      _ = bench.request(Self.start)
      return values(bench.wait(milliseconds: 1000))
    }
    #expect(stream() == stream())
  }

  @Test("a limit stops the stream, also within a tick")
  func limit() {
    let bench = bench {
      $0.notificationsPerSecond = 300
      $0.notificationLimit = 100
    }
    _ = bench.request(Self.subscribe)
    _ = bench.request(Self.start)
    #expect(values(bench.wait(milliseconds: 2000)).count == 100)
    #expect(bench.controller.deadline == nil)
    _ = bench.request(Self.start)
    #expect(values(bench.wait(milliseconds: 2000)).count == 100)
  }

  @Test("the link is lost after so many frames, as Connection Timeout")
  func linkLoss() {
    let bench = bench {
      $0.notificationsPerSecond = 300
      $0.disconnectAfter = 20
    }
    _ = bench.request(Self.subscribe)
    _ = bench.request(Self.start)
    let packets = bench.wait(milliseconds: 1000)
    #expect(values(packets).count == 20)
    #expect(packets.last == "04050400400008")
    #expect(bench.send(ControllerBench.createConnection) == ["040f0400010d20"])
    #expect(bench.wait(milliseconds: 200) == [ControllerBench.connected])
    // A new client has no subscriptions.
    #expect(bench.request("0a1300") == "0b0000")
  }

  @Test("every fifth frame is broken, by turns in its checksum and in its length")
  func malformed() {
    let bench = bench {
      $0.notificationsPerSecond = 300
      $0.malformedEvery = 5
      $0.notificationLimit = 30
    }
    _ = bench.request(Self.subscribe)
    _ = bench.request(Self.start)
    let frames = values(bench.wait(milliseconds: 1000))
    #expect(frames.count == 30)
    for (index, frame) in frames.enumerated() {
      let isWhole = frame.count == 16
      let isRight = isWhole && frame[15] == frame.dropLast().reduce(0, &+)
      switch (index + 1) % 10 {
      case 0: #expect(frame.count == 8)
      case 5: #expect(isWhole && !isRight)
      default: #expect(isRight)
      }
    }
  }

  @Test("08 01 switches it off: the link ends and it is not heard again")
  func powerOff() {
    let bench = bench()
    let answers = bench.send(ControllerBench.att("121000 08010000000000000000000000000009"))
    #expect(answers.last == "04050400400015")
    #expect(bench.send(ControllerBench.createConnection) == ["040f0400010d20"])
    #expect(bench.wait(milliseconds: 5000) == [])
  }

  @Test("section 1.4: unasked, it exchanges MTUs and wants slower parameters")
  func active() {
    let bench = bench { $0.behaviour = .active }
    let packets = bench.wait(milliseconds: 15_000)
    #expect(
      packets == [
        ControllerBench.att("02f400", "20"),
        "02402010000c00050012010800140028000400f401",
        "02402010000c00050012020800500064000400f401",
      ])
    // Our response to its MTU request applies to both directions.
    _ = bench.send(ControllerBench.att("030502"))
    #expect(bench.request("0a2000").count == 2 + 2 * 18)
  }
}

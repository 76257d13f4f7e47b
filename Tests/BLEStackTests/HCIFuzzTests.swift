import BLEStack
import BLEWire
import TestKit
import Testing

/// Mutations of a valid session. A trap ends the test run; the counters must stay consistent.
@Suite struct HCIFuzzTests {
  /// Knuth's MMIX generator: the same sequence each time.
  private struct Generator: RandomNumberGenerator {
    var state: UInt64
    mutating func next() -> UInt64 {
      state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
      return state ^ state >> 33
    }
  }

  private static let session = [
    "043e1301 00 4000 00 01 f5f4f3f2f1f0 2800 0000 2a00 00",
    "043e1301 00 4100 00 01 f5f4f3f2f1f0 2800 0000 2a00 00",
    "024020 0700 0300 0400 1b0300",
    "024020 0900 0500 0400 1b0300aabb",
    "024020 0600 0500 0400 1b03",
    "024010 0300 00aabb",
    "024120 1000 0c00 0500 1201 0800 5000 6400 0400 f401",
    "024020 0800 0400 0500 5501 0000",
    "024020 0b00 0700 0600 01 03000000 10 00",
    "043e0b06 4000 0600 0c00 0100 c800",
    "043e0a03 00 4000 0c00 0100 c800",
    "041309 02 4000 0100 4100 0200",
    "040e0701 0514 00 4000 d6",
    "040f0400 01 1320",
    "040e0401 2020 00",
    "041a01 01",
    "043e1a0d 01 2100 01 f5f4f3f2f1f0 01 02 01 7f d6 0000 00 000000000000 00",
    "043e1c0d 01 0100 01 f5f4f3f2f1f0 01 02 01 7f d6 0000 00 000000000000 02 0106",
    "043e0c02 01 00 01 f5f4f3f2f1f0 00 d0",
    "043e0b07 4000 fb00 4808 1b00 4801",
    "043e060c 00 4000 02 01",
    "043e0c04 00 4000 2301000000000000",
    "040c08 00 4000 09 f105 3412",
    "040504 00 4100 13",
    "024020 1200 0e00 0500 15 01 0a00 4000 1700 1700 0100 0000",
    "024020 0c00 0800 0500 16 02 0400 4000 0100",
    "024020 0a00 0600 4000 0400 01020304",
  ].map(octetsOf)

  private static func mutate(_ packet: [UInt8], _ random: inout Generator) -> [UInt8] {
    var packet = packet
    for _ in 0..<Int.random(in: 0...3, using: &random) {
      switch Int.random(in: 0..<6, using: &random) {
      case 0: packet = Array(packet.prefix(Int.random(in: 0...packet.count, using: &random)))
      case 1: packet.append(UInt8.random(in: 0...255, using: &random))
      case 2: packet += packet.prefix(64)
      default:
        guard !packet.isEmpty else { break }
        let index = Int.random(in: 0..<packet.count, using: &random)
        packet[index] =
          Bool.random(using: &random)
          ? UInt8.random(in: 0...255, using: &random)
          : packet[index] ^ 1 << UInt8.random(in: 0...7, using: &random)
      }
    }
    return packet
  }

  @Test func survivesMutations() throws {
    var random = Generator(state: 20_26)
    var bench = HCIHostBench()
    try bench.setUp()
    var (received, thrown, failures) = (0, 0, 0)
    for _ in 0..<200_000 {
      let packet = Self.mutate(Self.session[Int.random(in: 0..<Self.session.count, using: &random)], &random)
      received += 1
      do throws(WireError) { try bench.receive(packet) } catch { thrown += 1 }
      if received.isMultiple(of: 16) {
        _ = bench.sent()
        for event in bench.events() {
          if case .failed(let failure) = event { Issue.record("\(failure)") }
          // The only effect by which a packet may end the session.
          if case .restarting = event {
            failures += 1
            bench = HCIHostBench()
            try bench.setUp()
            thrown = 0
          }
        }
        bench.attributes = []
        bench.reports = []
        check(bench, thrown)
      }
    }
    #expect(failures > 0)
    #expect(thrown > 0)
  }

  private func check(_ bench: HCIHostBench, _ thrown: Int) {
    let statistics = bench.host.statistics
    let (underWay, links) = (bench.host.fragmentsUnderWay, bench.host.linkCount)
    guard statistics.malformed == thrown, (0...2).contains(underWay), (0...4096).contains(links) else {
      Issue.record("\(statistics), \(thrown) thrown, \(underWay) under way, \(links) links")
      return
    }
  }
}

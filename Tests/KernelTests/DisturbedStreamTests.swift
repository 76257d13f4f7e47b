import Foundation
import TestKit
import Testing

extension WithoutKernel {
  /// A controller whose H4 stream contains invalid data during a capture.
  @Suite final class DisturbedStreamTests {
    /// Bytes inserted between two packets from the controller. Core 5.4, Vol 4, Part A, 2 and Part E, 5.4.
    nonisolated struct Insertion: CustomTestStringConvertible, Sendable {
      var testDescription: String
      /// Hexadecimal argument for `injecting_proxy.py`.
      var hex: String
      /// Faults that the report must count: bytes between packets, and packets that are ignored.
      var faults: Int

      init(_ name: String, _ hex: String, faults: Int = 0) {
        testDescription = name
        self.hex = hex
        self.faults = faults
      }
    }

    private let scene: Scene

    init() throws { scene = try Scene() }
    isolated deinit { scene.end() }

    /// A ring and a controller of bumble's, behind the proxy.
    private func disturbedRing(_ hex: String, _ options: [String] = []) throws -> (
      ring: Scene.Peer, proxy: Program
    ) {
      let (theirs, ours) = (try freePort(), try freePort())
      var ring = try scene.bumbleRing(at: theirs, "--rate", "300")
      let proxy = try scene.start(
        "/usr/bin/python3", [Place.peer("injecting_proxy.py"), "\(ours)", "\(theirs)", hex] + options)
      try proxy.line(containing: "ready")
      ring.options[1] = "tcp-client:127.0.0.1:\(ours)"
      return (ring, proxy)
    }

    private nonisolated static let harmless = [
      Insertion("octets that start no packet", "ff00aa5500ff", faults: 6),
      Insertion("a data packet of 65,535 octets", "02014effff", faults: 5),
      Insertion("data of a link that is not there", "02ee2e0700030004001b1200", faults: 1),
      Insertion("the Connection Complete of the link, again", "CONNECTED"),
      Insertion("Number Of Completed Packets of a link that is not there", "04130501ee0e0100"),
      Insertion("Number Of Completed Packets of more than there were", "04130501HHHHff7f"),
      Insertion("an LE event without a subevent", "043e00", faults: 1),
      Insertion("an LE event that is cut short", "043e020100", faults: 1),
      Insertion("a Disconnection Complete of a link that is not there", "04050400ee0e13"),
      Insertion("an event of a vendor's", "04ff02aabb"),
    ]

    @Test(arguments: harmless)
    func losesNothingBetweenPackets(_ insertion: Insertion) throws {
      let (ring, proxy) = try disturbedRing(insertion.hex)
      let path = scene.path("capture")
      try scene.ringtap(reaching: ring, "capture", ring.address, "--count", "300", "--output", path)
        .expectSuccess()
      try proxy.line(containing: "inserted")
      let capture = try scene.wholeCapture(path)
      capture.expectNoTrouble(samples: 300, stamps: .arrival, adapterFaults: insertion.faults)
      #expect(capture.tables["spo2"]?.map { $0.values[0] } == Array(0..<100))
    }

    /// A wrong length that is accepted swallows real packets; then the stream is resynchronised.
    @Test(arguments: [
      Insertion("a data packet of 300 octets that are others", "02014e2c01"),
      Insertion("an event of 255 octets that are others", "04ffff"),
    ])
    func findsTheStreamAgain(_ insertion: Insertion) throws {
      let (ring, proxy) = try disturbedRing(insertion.hex)
      let path = scene.path("capture")
      let result = try scene.ringtap(
        reaching: ring, "capture", ring.address, "--count", "300", "--output", path)
      // The swallowed packets are lost, which shows in incomplete ticks. Whole missing ticks may also be
      // clock drift and are reported as possibly missing.
      let told = result.output + result.errors
      #expect(result.status == 3 || told.contains("may be missing"), "\(told)")
      try proxy.line(containing: "inserted")
      let capture = try scene.wholeCapture(path)
      #expect(capture.rowCount == 300)
      #expect(capture.session.adapterFaults > 0)
      // The lost frames show in the peer's numbers, which are otherwise in order.
      let numbers = try #require(capture.tables["spo2"]).map { $0.values[0] }
      #expect(zip(numbers, numbers.dropFirst()).allSatisfy { $0 < $1 })
      #expect(numbers.last.map { $0 > 100 } == true)
    }

    /// Events after which a host cannot continue.
    @Test(arguments: [
      (Insertion("a Hardware Error", "04100142"), [String]()),
      (Insertion("the end of the stream in the middle of a packet", ""), ["--cut"]),
      (Insertion("a Disconnection Complete of the link", "04050400HHHH08"), []),
    ])
    func keepsWhatCameBefore(_ insertion: Insertion, _ options: [String]) throws {
      let (ring, proxy) = try disturbedRing(insertion.hex, options)
      let path = scene.path("capture")
      let result = try scene.ringtap(
        reaching: ring, "capture", ring.address, "--count", "300", "--patience", "0", "--output", path)
      #expect(result.status == 1)
      #expect(result.messages.count == 1)
      #expect(result.errors.contains(path))
      try proxy.line(containing: "inserted")
      let capture = try scene.wholeCapture(path)
      #expect(1..<150 ~= capture.rowCount)
      #expect(capture.session.lost == .none)
      #expect(capture.session.malformed == 0)
    }
  }
}

import Foundation
import TestKit
import Testing

extension WithoutKernel {
  /// bumble's host on our virtual controller: nothing above HCI is ours.
  @Suite final class ForeignHostTests {
    private static let address = "70:CB:0D:00:A1:B2"

    private let scene: Scene

    init() throws { scene = try Scene() }
    isolated deinit { scene.end() }

    /// Output of `bumble_central.py`, by the first word of each line.
    private func central(_ transport: String) throws -> [String: [String]] {
      let result = try scene.demand(Place.bumblePython(), [Place.peer("bumble_central.py"), transport])
      let lines = result.outputLines.map { $0.split(separator: " ", maxSplits: 1).map(String.init) }
      return Dictionary(grouping: lines.filter { $0.count == 2 }) { $0[0] }.mapValues { $0.map { $0[1] } }
    }

    private struct Attribute: Decodable {
      var type: String
      var handle: Int
      var uuid: String
      var valueHandle: Int?
    }

    /// Handles and types of all attributes as our own host finds them, in the format of `bumble_central.py`.
    private func attributes(of ring: Scene.Peer) throws -> [String] {
      let result = try scene.ringtap(reaching: ring, "gatt", ring.address, "--json")
      result.expectSuccess()
      let declarations = ["service": "2800", "include": "2802", "characteristic": "2803"]
      let base = "-0000-1000-8000-00805f9b34fb"
      var types: [Int: String] = [:]
      for attribute in try result.objects(Attribute.self) {
        let uuid =
          attribute.uuid.hasSuffix(base) ? String(attribute.uuid.prefix(8).suffix(4)) : attribute.uuid
        types[attribute.handle] = declarations[attribute.type] ?? uuid
        if let value = attribute.valueHandle { types[value] = uuid }
      }
      return types.sorted { $0.key < $1.key }.map { String(format: "0x%04x ", $0.key) + $0.value }
    }

    /// Scan, connect, MTU, discovery, subscription, raw stream and disconnect; then our own host on the same
    /// ring.
    @Test(arguments: [Way.tcp, .unix], [[], ["--extended"]])
    func recordsTheEmulatedRing(_ way: Way, _ options: [String]) throws {
      let ring = try scene.emulatedRing(over: way, ["--rate", "600"] + options)
      let transport = try #require(ring.options.last)
      let told = try central(transport.replacingOccurrences(of: "unix:", with: "unix-client:"))

      #expect(told["found"] == ["\(Self.address) R02_A1B2"])
      #expect(told["connected"] == [Self.address])
      // The smaller of what it requests, 247, and what the ring supports, 244. Core 5.4, Vol 3, Part F,
      // 3.4.2.2.
      #expect(told["mtu"] == ["244"])
      // 64 %, as the battery response of the ring's protocol.
      #expect(told["other"] == ["03400000000000000000000000000043"])
      // Connection Terminated By Local Host. Core 5.4, Vol 1, Part F, 2.22.
      #expect(told["disconnected"] == ["\(0x16)"])
      #expect(told["attribute"] == (try attributes(of: ring)))

      let frames = try #require(told["frame"])
      #expect(frames.count == 600)
      #expect(frames.prefix(2) == ["a10100a000c20072009501000000000c", "a10229812acd29c1010c01000000003c"])
      let path = scene.path("capture")
      try scene.ringtap(reaching: ring, "capture", "--count", "600", "--output", path).expectSuccess()
      #expect(frames == (try scene.tshark(path + "/packets.btsnoop").map(\.hex)))
    }

    /// bumble's own tool reads the emulated ring's Device Information.
    @Test(arguments: [Way.tcp, .unix])
    func isReadByBumblesGATTDump(_ way: Way) throws {
      let ring = try scene.emulatedRing(over: way)
      let transport = try #require(ring.options.last)
      let configuration = scene.path("device.json")
      try #"{"name": "bumble", "address": "F0:F1:F2:F3:F4:F6"}"#.write(
        toFile: configuration, atomically: true, encoding: .utf8)
      let program = URL(filePath: try Place.bumblePython()).deletingLastPathComponent()
        .appending(path: "bumble-gatt-dump").path
      let dump = try scene.start(
        program,
        [
          "--device-config", configuration,
          transport.replacingOccurrences(of: "unix:", with: "unix-client:"), "\(ring.address)/P",
        ])
      // The last attribute of the table: the firmware revision R02_3.00.06_240523, in hexadecimal.
      _ = try dump.line(containing: "5230325f332e30302e30365f323430353233")
    }
  }
}

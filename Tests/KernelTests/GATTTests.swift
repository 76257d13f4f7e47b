import Foundation
import TestKit
import Testing

extension OverEachWay {
  /// Discovery and values, against bumble and compared with BlueZ's gatttool. gatttool needs the kernel's
  /// host; elsewhere its recorded results are used.
  @Suite final class GATTTests {
    private static let indicationUUID = "ff02"
    private static let echoUUID = "ff01"

    private let scene: Scene

    init() throws { scene = try Scene() }
    isolated deinit { scene.end() }

    private struct Attribute: Decodable {
      var type: String
      var handle: Int
      var uuid: String
      var endHandle: Int?
      var primary: Bool?
      var valueHandle: Int?
      var properties: [String]?
      var includedHandle: Int?
      var includedEndHandle: Int?
    }

    private struct Value: Decodable {
      var timeNs: UnixNanoseconds
      var handle: Int
      var value: String
    }

    private func gatttool(_ address: String, _ arguments: String...) throws -> [String] {
      try scene.demand("gatttool", ["-b", address] + arguments).outputLines
    }

    /// Attributes that gatttool finds in `bumble_ring.py --echo`.
    private func gatttoolFinds(_ option: String, in ring: Scene.Peer, over way: Way) throws -> [[String]] {
      let recorded = try recordedLines(of: option).map(numbers)
      guard way == .kernel else { return recorded }
      let live = try gatttool(ring.address, option).map(numbers)
      #expect(live == recorded, "Peers/bumble_ring.gatttool is not what gatttool \(option) prints any more")
      return live
    }

    private func recordedLines(of option: String) throws -> [String] {
      let text = try String(contentsOfFile: Place.peer("bumble_ring.gatttool"), encoding: .utf8)
      let lines = text.split(separator: "\n").map(String.init)
      let start = try #require(lines.firstIndex(of: "gatttool \(option)"))
      return Array(lines[(start + 1)...].prefix { !$0.hasPrefix("gatttool") })
    }

    /// Numbers in a line of gatttool's, without their labels.
    private func numbers(_ line: String) -> [String] {
      line.split(whereSeparator: { " ,".contains($0) }).map(String.init)
        .filter { $0.hasPrefix("0x") || $0.count == 36 }
    }

    private func hex(_ number: Int, digits: Int = 4) -> String {
      let text = String(number, radix: 16)
      return "0x" + String(repeating: "0", count: digits - text.count) + text
    }

    /// Characteristic Properties. Core 5.4, Vol 3, Part G, 3.3.1.1.
    private static let propertyBits = [
      "broadcast": 1, "read": 2, "writeWithoutResponse": 4, "write": 8, "notify": 16, "indicate": 32,
      "authenticatedSignedWrites": 64, "extendedProperties": 128,
    ]

    @Test(arguments: Way.here)
    func findsWhatGatttoolFinds(_ way: Way) throws {
      let ring = try scene.bumbleRing(over: way, "--echo")
      // gatttool runs first: the kernel keeps a link for two seconds, the peer keeps the MTU that ringtap
      // negotiated, and gatttool accepts at most 23 bytes.
      let theirRanges = try gatttoolFinds("--primary", in: ring, over: way)
      let theirCharacteristics = try gatttoolFinds("--characteristics", in: ring, over: way)
      let theirAttributes = try gatttoolFinds("--char-desc", in: ring, over: way)
      let result = try scene.ringtap(reaching: ring, "gatt", ring.address, "--json")
      result.expectSuccess()
      let attributes = try result.objects(Attribute.self)

      let services = attributes.filter { $0.type == "service" && $0.primary == true }
      let ranges = try services.map { [hex($0.handle), hex(try #require($0.endHandle)), $0.uuid] }
      #expect(ranges == theirRanges)

      let characteristics = attributes.filter { $0.type == "characteristic" }
      let ours = try characteristics.map { characteristic in
        let bits = try (characteristic.properties ?? []).map { try #require(Self.propertyBits[$0]) }
        return [
          hex(characteristic.handle), hex(bits.reduce(0, +), digits: 2),
          hex(try #require(characteristic.valueHandle)), characteristic.uuid,
        ]
      }
      #expect(ours.count > 10)
      #expect(ours == theirCharacteristics)

      // gatttool lists every attribute; a value's type is its characteristic's.
      let declarations = [
        "service": "00002800", "include": "00002802", "characteristic": "00002803",
      ].mapValues { $0 + "-0000-1000-8000-00805f9b34fb" }
      var all: [Int: String] = [:]
      for attribute in attributes {
        all[attribute.handle] = declarations[attribute.type] ?? attribute.uuid
        if let value = attribute.valueHandle { all[value] = attribute.uuid }
      }
      #expect(all.sorted { $0.key < $1.key }.map { [hex($0.key), $0.value] } == theirAttributes)

      // gatttool does not print the services that bumble_ring.py includes.
      let includes = attributes.filter { $0.type == "include" }
      #expect(includes.count == 2)
      for include in includes {
        let target = try #require(services.first { $0.handle == include.includedHandle })
        #expect(target.endHandle == include.includedEndHandle)
        #expect(target.uuid == include.uuid)
      }
    }

    @Test(arguments: Way.here)
    func readsWhatGatttoolReads(_ way: Way) throws {
      // Without a larger MTU a value of 200 bytes takes ten requests.
      let ring = try scene.bumbleRing(over: way, "--echo", "--mtu", "23")
      let before = Int64(Date().timeIntervalSince1970 * 1e9)
      let result = try scene.ringtap(reaching: ring, "read", ring.address, Self.echoUUID, "--json")
      result.expectSuccess()
      let long = try #require(try result.objects(Value.self).first)
      #expect(long.value == (0..<200).map { String(format: "%02x", $0) }.joined())
      #expect((before...Int64(Date().timeIntervalSince1970 * 1e9)).contains(long.timeNs.value))
      if way == .kernel {
        let theirs = try gatttool(ring.address, "--char-read", "-a", hex(long.handle))
        let octets = try #require(theirs.first).split(separator: ": ").last?.filter { $0 != " " }
        #expect(octets == long.value)
      }

      let empty = try scene.ringtap(reaching: ring, "read", ring.address, "ff03", "--json")
      empty.expectSuccess()
      #expect(try empty.objects(Value.self).map(\.value) == [""])
    }

    @Test(arguments: Way.here)
    func writes(_ way: Way) throws {
      let ring = try scene.bumbleRing(over: way, "--echo", "--mtu", "23")
      // The second value is longer than one request at this MTU.
      var place = Self.echoUUID
      for value in ["c0ffee", "", String(repeating: "5a", count: 60)] {
        let result = try scene.ringtap(reaching: ring, "write", ring.address, place, value, "--json")
        result.expectSuccess()
        try ring.program.line(on: .errors, containing: "wrote \(value.count / 2) \(value)")
        place = hex(try #require(try result.objects(Value.self).first).handle)
        guard way == .kernel else { continue }
        let theirs = try gatttool(ring.address, "--char-read", "-a", place)
        #expect(theirs.first?.split(separator: ":").last?.filter { $0 != " " } == value)
      }
      // A battery request, which bumble_ring.py logs.
      let battery = "03000000000000000000000000000003"
      try scene.ringtap(
        reaching: ring, "write", ring.address, "6e400002-b5a3-f393-e0a9-e50e24dcca9e", battery,
        "--without-response"
      ).expectSuccess()
      try ring.program.line(on: .errors, containing: "command \(battery)")
    }

    @Test(arguments: Way.here)
    func receivesNotificationsAndIndications(_ way: Way) throws {
      let ring = try scene.bumbleRing(over: way, "--echo")
      let before = Int64(Date().timeIntervalSince1970 * 1e9)
      let notified = try scene.ringtap(
        reaching: ring, "notify", ring.address, "ffe1", "--count", "1", "--json")
      notified.expectSuccess()
      let value = try #require(try notified.objects(Value.self).first)
      #expect(value.value == "01020304")
      #expect((before...Int64(Date().timeIntervalSince1970 * 1e9)).contains(value.timeNs.value))

      let indicated = try scene.ringtap(
        reaching: ring, "notify", ring.address, Self.indicationUUID, "--count", "1", "--json")
      indicated.expectSuccess()
      let text = "indicated".utf8.map { String(format: "%02x", $0) }.joined()
      #expect(try indicated.objects(Value.self).map(\.value) == [text])
      try ring.program.line(on: .errors, containing: "confirmed \(text)")
    }

    @Test(arguments: Way.hereWithEmulation)
    func saysWhyADeviceRefuses(_ way: Way) throws {
      let ring = try scene.emulatedRing(over: way)
      try scene.ringtap(reaching: ring, "read", ring.address, "6e400002-b5a3-f393-e0a9-e50e24dcca9e")
        .expectFailure(saying: "refused Read Request", "Read Not Permitted")
    }

    @Test(arguments: Way.hereWithEmulation)
    func saysThatThereIsNoSuchCharacteristic(_ way: Way) throws {
      let ring = try scene.emulatedRing(over: way)
      try scene.ringtap(reaching: ring, "read", ring.address, "2a37")
        .expectFailure(saying: "no characteristic 2a37", "ringtap gatt \(ring.address)")
    }
  }
}

import BLEHost
import BLEStack
import BLEWire
import Foundation
import SensorSessions
import TestKit
import Testing

/// `ringtap devices`, and names of known devices as arguments of other commands.
@Suite struct DevicesCommandTests {
  private func withKnown(_ body: (String) async throws -> Void) async throws {
    try await withFolder { state in
      let devices = KnownDevices(in: state + "/ringtap/devices") { Issue.record("\($0)") }
      var strap = GATTDatabase.Service(
        kind: .primary, range: HandleRange(start: AttributeHandle(16), end: AttributeHandle(18)),
        uuid: .heartRate)
      strap.characteristics = [
        GATTDatabase.Characteristic(
          handle: AttributeHandle(17), properties: .notify, valueHandle: AttributeHandle(18),
          endHandle: AttributeHandle(18), uuid: .heartRateMeasurement)
      ]
      let strapAddress = DeviceAddress(bits: 0xC412_3456_789A, type: .random)
      try devices.remember(
        strapAddress, name: "Strap", at: ReceiveTime(nanoseconds: 2_000_000_000),
        GATTDiscoveryResult(GATTDatabase(services: [strap]), .whole, databaseHash: [0xAB, 0xCD]))
      for number in 1...2 {
        try devices.remember(
          DeviceAddress(bits: 0x70CB_0D00_0000 + UInt64(number), type: .public), name: "Twin",
          at: ReceiveTime(nanoseconds: 1_000_000_000), GATTDiscoveryResult(GATTDatabase(), .part))
      }
      try await body(state)
    }
  }

  @Test func listsThem() async throws {
    try await withKnown { state in
      let list = try await Ringtap.run(["devices", "--json"], state: state)
      #expect(
        list.outputLines == [
          #"{"address":"C4:12:34:56:78:9A","addressType":"random","name":"Strap","kind":"heart-rate","lastSeenNs":"2000000000"}"#,
          #"{"address":"70:CB:0D:00:00:01","addressType":"public","name":"Twin","kind":"other","lastSeenNs":"1000000000"}"#,
          #"{"address":"70:CB:0D:00:00:02","addressType":"public","name":"Twin","kind":"other","lastSeenNs":"1000000000"}"#,
        ])
      let text = try await Ringtap.run(["devices"], state: state)
      #expect(text.outputLines.count == 3)
      #expect(text.outputLines[0].hasPrefix("C4:12:34:56:78:9A  random  heart-rate  Strap  "))
      let none = try await Ringtap.run(["devices", "--json"], state: state + "/nowhere")
      #expect(none.status == 0 && none.outputLines.isEmpty && none.errorLines.isEmpty)
    }
  }

  @Test func showsOne() async throws {
    try await withKnown { state in
      let text = try await Ringtap.run(["devices", "show", "Strap"], state: state)
      #expect(
        text.outputLines.dropFirst() == [
          "database hash abcd", "0x0010–0x0012  service 180d  Heart Rate",
          "  0x0011  characteristic 2a37  value 0x0012  [notify]  Heart Rate Measurement",
        ])
      let json = try await Ringtap.run(
        ["devices", "show", "c4:12:34:56:78:9a", "--json"], state: state)
      let file = state + "/ringtap/devices/C4-12-34-56-78-9A-random.json"
      #expect(try json.output == String(contentsOfFile: file, encoding: .utf8))
      let unknown = try await Ringtap.run(["devices", "show", "Nobody"], state: state)
      #expect(unknown.status == 1 && unknown.errorLines.count == 1)
    }
  }

  @Test func forgetsThem() async throws {
    try await withKnown { state in
      // The name is ambiguous.
      let twins = try await Ringtap.run(["devices", "forget", "Twin"], state: state)
      #expect(twins.status == 1)
      #expect(twins.errorLines.first?.contains("70:CB:0D:00:00:01") == true)
      let bonds = BondFiles(in: state + "/ringtap/devices") { Issue.record("\($0)") }
      for address in ["70:CB:0D:00:00:01", "70:CB:0D:00:00:02"] {
        let device = try #require(DeviceAddress(address, type: .public))
        bonds.keep(
          StoredBond(
            device: device, local: device,
            bond: Bond(isAuthenticated: false, isSecureConnections: true, keyByteCount: 16, isBonded: true)))
      }
      let one = try await Ringtap.run(["devices", "forget", "70:CB:0D:00:00:01"], state: state)
      #expect(one.status == 0)
      let kept = BondFiles(in: state + "/ringtap/devices") { Issue.record("\($0)") }.bonds()
      #expect(kept.map(\.device.description) == ["70:CB:0D:00:00:02"])
      let twin = try await Ringtap.run(["devices", "forget", "Twin"], state: state)
      #expect(twin.status == 0)
      let rest = try await Ringtap.run(["devices", "--json"], state: state)
      #expect(rest.outputLines.count == 1)
      for arguments in [["devices", "forget"], ["devices", "forget", "Strap", "--all"]] {
        #expect(try await Ringtap.run(arguments, state: state).status == 2)
      }
      let all = try await Ringtap.run(["devices", "forget", "--all"], state: state)
      #expect(all.errorLines == ["ringtap: 1 device forgotten"])
      #expect(try FileManager.default.contentsOfDirectory(atPath: state + "/ringtap/devices") == [])
    }
  }

  /// Wrong usage is reported before the radio is opened.
  @Test func namesThatAreNotKnownAreWrongUsage() async throws {
    try await withKnown { state in
      for command in [["ring", "battery"], ["heart-rate"], ["capture"]] {
        let unknown = try await Ringtap.run(command + ["Nobody"], state: state)
        #expect(unknown.status == 2)
        let twin = try await Ringtap.run(command + ["Twin"], state: state)
        #expect(twin.status == 2)
        #expect(twin.errorLines.joined().contains("several"))
        let off = try await Ringtap.run(command + ["Strap", "--no-remember"], state: state)
        #expect(off.status == 2)
      }
    }
  }

  /// Devices that are emulated in the process are not stored, because they end with it.
  @Test func emulatedDevicesAreNotRemembered() async throws {
    try await withFolder { state in
      let run = try await Ringtap.run(
        ["ring", "battery", "--transport", "virtual:ring", "--json"], state: state)
      #expect(run.outputLines == [#"{"kind":"battery","level":64,"charging":false}"#])
      #expect(try FileManager.default.contentsOfDirectory(atPath: state) == [])
    }
  }
}

import Foundation
import TestKit
import Testing

extension InTestKernel {
  /// Attributes cached from an earlier link, with BlueZ's own daemon as the device: its Database Hash, its
  /// Service Changed.
  @Suite final class KnownAttributesTests {
    /// Address of btvirt's second controller.
    private static let device = "00:AA:01:01:00:01"

    private let scene: Scene

    init() throws { scene = try Scene() }
    isolated deinit { scene.end() }

    /// Discovers all attributes with a program that caches them.
    private func discoverAll() throws {
      let tree = try scene.run(
        "env",
        [
          "-u", "RINGTAP_NO_REMEMBER", "XDG_STATE_HOME=\(scene.path("state"))", Place.ringtap, "gatt",
          Self.device, "--adapter", "hci0", "--mode", "raw",
        ])
      #expect(tree.status == 0, "\(tree.errors)")
    }

    /// Reads the device's name with a program that caches attributes.
    ///
    /// - Returns: opcodes of its requests, as the kernel's monitor has them. The MTU exchange is left out:
    ///   bluetoothd requests it too, and the side that is first spares the other.
    private func readName(_ name: String) throws -> [UInt8] {
      let path = scene.path(name + ".btsnoop")
      let recording = try scene.start(Place.ringtap, ["log", "record", "--output", path])
      try recording.line(on: .errors, containing: "recording")
      let read = try scene.run(
        "env",
        [
          "-u", "RINGTAP_NO_REMEMBER", "XDG_STATE_HOME=\(scene.path("state"))", Place.ringtap, "read",
          Self.device,
          "2a00", "--adapter", "hci0", "--mode", "raw", "--json",
        ])
      #expect(read.status == 0, "\(read.errors)")
      #expect(read.output.contains("value"))
      recording.send(SIGINT)
      #expect(try recording.finish().status == 0)
      // Opcode 4 is outgoing ACL data; the ATT opcode follows two headers. Our side of the link is hci0.
      return try MonitorLog(path).records.filter { $0.opcode == 4 && $0.adapter == 0 && $0.payload.count > 8 }
        .filter { Array($0.payload[6...7]) == [4, 0] }.map { $0.payload[8] }
        .filter { $0.isMultiple(of: 2) && $0 < 0x1E && $0 != 0x02 }
    }

    @Test func discoversBluetoothdOnlyWhenItHasChanged() throws {
      try scene.linkedControllers()
      try scene.bluetoothd()
      let control = try scene.bluetoothctl()
      try control.type("select \(Self.device)")
      try control.type("power on")
      try control.line(containing: "succeeded")
      try control.type("advertise on")
      try control.line(containing: "Advertising object registered")

      // Read By Type finds the name, Find Information finds its descriptors, and Read By Type reads the hash.
      let (hash, information, read): (UInt8, UInt8, UInt8) = (0x08, 0x04, 0x0A)
      let unknown = try readName("unknown")
      #expect(unknown.first == hash && unknown.last == read)
      #expect(unknown.dropLast().allSatisfy { [hash, information].contains($0) }, "no service is discovered")
      try discoverAll()
      let known = try readName("known")
      #expect(known == [hash, read])

      try control.type("gatt.register-service 0000fff0-0000-1000-8000-00805f9b34fb")
      try control.type("yes")
      try control.type("gatt.register-application")
      try control.line(containing: "Application registered")
      // The hash, then the requests for an unknown device.
      let changed = try readName("changed")
      #expect(changed == [hash] + unknown)
      try discoverAll()
      #expect(try readName("again") == [hash, read])
    }
  }
}

import Foundation
import TestKit
import Testing

extension InTestKernel {
  /// `ringtap devices` against the emulated ring.
  @Suite final class DevicesTests {
    private let scene: Scene

    init() throws { scene = try Scene() }
    isolated deinit { scene.end() }

    private struct Device: Decodable, Equatable {
      var address: String
      var addressType: String
      var name: String?
      var kind: String
    }

    /// Runs the program with its device store in the scene's folder.
    private func remembering(_ arguments: [String]) throws -> Program.Result {
      try scene.run(
        "env",
        ["-u", "RINGTAP_NO_REMEMBER", "XDG_STATE_HOME=\(scene.path("state"))", Place.ringtap] + arguments)
    }

    private func devices() throws -> [Device] {
      try remembering(["devices", "--json"]).objects(Device.self)
    }

    @Test func remembersShowsAndForgets() throws {
      let ring = try scene.emulatedRing("--name", "R02_C0DE")
      #expect(try devices() == [])
      // Found by a scan, which reports its name.
      let first = try remembering(["ring", "battery", "--json"])
      #expect(first.status == 0, "\(first.errors)")
      #expect(first.errors.contains("found R02_C0DE"))
      let known = Device(address: ring.address, addressType: "public", name: "R02_C0DE", kind: "ring")
      #expect(try devices() == [known])
      // By name without a scan, given as argument or as option.
      for arguments in [["R02_C0DE"], ["--name", "R02_C0DE"]] {
        let second = try remembering(["ring", "battery", "--json"] + arguments)
        #expect(second.status == 0, "\(second.errors)")
        #expect(!second.errors.contains("found"))
        #expect(second.output == first.output)
      }
      let tree = try remembering(["gatt", "R02_C0DE"])
      let shown = try remembering(["devices", "show", "R02_C0DE"])
      #expect(shown.outputLines.dropFirst() == tree.outputLines[...])
      #expect(try remembering(["--help"]).status == 0)
      #expect(try remembering(["devices", "forget", "R02_C0DE"]).status == 0)
      #expect(try devices() == [])
      let unknown = try remembering(["gatt", "R02_C0DE"])
      #expect(unknown.status == 2)
      #expect(unknown.errors.contains("ringtap devices"))
    }

    @Test func remembersNothingWhereNobodyWantsIt() throws {
      let ring = try scene.emulatedRing()
      for arguments in [
        ["ring", "battery", ring.address, "--no-remember"],
        ["ring", "battery", "--transport", "virtual:ring"],
      ] {
        #expect(try remembering(arguments).status == 0)
      }
      #expect(try scene.ringtap("ring", "battery", ring.address).status == 0)
      #expect(!FileManager.default.fileExists(atPath: scene.path("state")))
    }

    /// A capture stores the device too, once its stream runs: the second tick arrives a second after the
    /// first. A damaged file is reported, and the capture succeeds.
    @Test func setsADamagedFileAside() throws {
      let ring = try scene.emulatedRing()
      let name = ring.address.replacing(":", with: "-") + "-public.json"
      let folder = URL(filePath: scene.path("state/ringtap/devices"))
      try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
      try Data("{".utf8).write(to: folder.appending(path: name))
      let capture = try remembering([
        "capture", ring.address, "--count", "6", "--output", scene.path("capture"),
      ])
      #expect(capture.status == 0, "\(capture.errors)")
      #expect(capture.errors.contains("treating the device as new"))
      #expect(try devices().map(\.address) == [ring.address])
      #expect(FileManager.default.fileExists(atPath: folder.appending(path: name + ".damaged").path))
    }
  }
}

import Foundation
import TestKit
import Testing

extension InTestKernel {
  /// `harness script-peer` on an adapter of the kernel, with the kernel's L2CAP in between.
  @Suite final class ScriptPeerTests {
    private let scene: Scene

    init() throws { scene = try Scene() }
    isolated deinit { scene.end() }

    private static let script = """
      database two
        0x0001-0x0003 2800 0118
        0x0002 2803 02 0300 002a
        0x0003 2a00 41
      dialogue long
        mtu 100
        with two
        > 0a0300
        < 0b aa*99
        > 0c03006300
        < 0d bb
      """

    private func start() throws -> (peer: Program, address: String) {
      let path = scene.path("script.txt")
      try Data(Self.script.utf8).write(to: URL(filePath: path))
      let peer = try scene.start(Place.harness, ["script-peer", path, "--vhci"])
      let words = try peer.line(containing: "ready").split(separator: " ")
      try #require(words.count == 4)
      return (peer, String(words[2]))
    }

    @Test func passes() throws {
      let (peer, address) = try start()
      let read = try scene.ringtap("read", address, "2a00", "--json")
      read.expectSuccess()
      #expect(read.output.contains(#""value":""# + String(repeating: "aa", count: 99) + #"bb""#))
      let end = try peer.finish(within: Program.patience)
      #expect(end.status == 0)
      #expect(end.outputLines.last == "passed long")
    }

    @Test func tellsTheFirstDifference() throws {
      let (peer, address) = try start()
      let read = try scene.ringtap("write", address, "0x0003", "01")
      #expect(read.status == 1)
      let end = try peer.finish(within: Program.patience)
      #expect(end.status == 1)
      #expect(
        end.outputLines.last == "failed long: line 8: the client sent 12030001; the dialogue has 0a0300")
    }
  }
}

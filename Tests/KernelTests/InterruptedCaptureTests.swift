import Foundation
import Testing

extension InTestKernel {
  /// What ends a capture before its time: a clear line, status 1, and files that are whole.
  @Suite final class InterruptedCaptureTests {
    private let scene: Scene

    init() throws { scene = try Scene() }
    deinit { scene.end() }

    /// Each file is complete, and the packet log has no less than the tables.
    private func expectWhole(_ path: String) throws -> CaptureFolder {
      let capture = try CaptureFolder(path)
      #expect(capture.session.received == capture.rowCount + capture.session.lost.disk)
      let packets = try scene.btmonNotifications(capture.packetLog)
      if capture.session.lost.packetLog == 0 { #expect(packets == capture.session.received) }
      let shown = try scene.ringtap("log", "show", capture.packetLog, "--json")
      #expect(shown.status == 0)
      #expect(shown.outputLines.count { $0.contains("\"opcode\":27,") } == packets)
      return capture
    }

    @Test func keepsWhatCameBeforeTheLinkWasLost() throws {
      let ring = try scene.emulatedRing("--rate", "300", "--disconnect-after", "300")
      let path = scene.path("capture")
      let result = try scene.ringtap("capture", ring.address, "--output", path)
      #expect(result.status == 1)
      #expect(result.messages.count == 1)
      #expect(result.errors.contains("link"))
      #expect(result.errors.contains(path))
      let capture = try expectWhole(path)
      capture.expectNoTrouble(samples: 300)
      #expect(capture.session.endReason.contains("link"))
    }

    @Test func keepsWhatCameBeforeABumbleRingLeft() throws {
      try scene.linkedControllers()
      let ring = try scene.bumbleRing("--rate", "300", "--disconnect-after", "150")
      let path = scene.path("capture")
      let result = try scene.ringtap("capture", ring.address, "--output", path)
      #expect(result.status == 1)
      #expect(result.messages.count == 1)
      try ring.program.line(containing: "sent 150")
      let capture = try expectWhole(path)
      capture.expectNoTrouble(samples: 150)
    }

    @Test func keepsWhatCameBeforeTheAdapterWent() throws {
      let controllers = try scene.linkedControllers()
      let ring = try scene.bumbleRing("--rate", "300")
      let path = scene.path("capture")
      let program = try scene.startRingtap("capture", ring.address, "--output", path)
      try ring.program.line(on: .errors, containing: "command a104")
      controllers.end()
      let result = try program.finish()
      #expect(result.status == 1)
      #expect(result.messages.count == 1)
      let capture = try expectWhole(path)
      capture.expectNoTrouble(samples: capture.rowCount)
    }

    @Test func keepsWhatFitsOnAFullDisk() throws {
      let ring = try scene.emulatedRing("--rate", "1500")
      let disk = scene.path("disk")
      try scene.demand("mkdir", [disk])
      try scene.demand("mount", ["-t", "tmpfs", "-o", "size=256k", "none", disk])
      let path = disk + "/capture"
      let result = try scene.ringtap("capture", ring.address, "--output", path)
      #expect(result.status == 1)
      #expect(result.messages.count == 1)
      #expect(result.errors.contains("No space left on device"))
      #expect(result.errors.contains(path))
      let capture = try expectWhole(path)
      #expect(capture.rowCount > 500)
      #expect(capture.session.endReason.contains("disk"))
      #expect(capture.session.malformed == 0)
      #expect(try scene.tshark(capture.packetLog).count > 500)
      try scene.demand("umount", [disk])
    }
  }
}

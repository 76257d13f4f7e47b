import Foundation
import TestKit
import Testing

extension OverEachWay {
  /// Events that end a capture early: a clear message, status 1, and complete files.
  @Suite final class InterruptedCaptureTests {
    private let scene: Scene

    init() throws { scene = try Scene() }
    isolated deinit { scene.end() }

    @Test(arguments: Way.hereWithEmulation)
    func keepsWhatCameBeforeTheLinkWasLost(_ way: Way) throws {
      let ring = try scene.emulatedRing(over: way, "--rate", "300", "--disconnect-after", "300")
      let path = scene.path("capture")
      let result = try scene.ringtap(
        reaching: ring, "capture", ring.address, "--patience", "0", "--output", path)
      #expect(result.status == 1)
      #expect(result.messages.count == 1)
      #expect(result.errors.contains("link"))
      #expect(result.errors.contains(path))
      let capture = try scene.wholeCapture(path)
      capture.expectNoTrouble(samples: 300, stamps: way.stamps)
      #expect(capture.session.endReason.contains("link"))
    }

    @Test(arguments: Way.here)
    func keepsWhatCameBeforeABumbleRingLeft(_ way: Way) throws {
      let ring = try scene.bumbleRing(over: way, "--rate", "300", "--disconnect-after", "150")
      let path = scene.path("capture")
      let result = try scene.ringtap(
        reaching: ring, "capture", ring.address, "--patience", "0", "--output", path)
      #expect(result.status == 1)
      #expect(result.messages.count == 1)
      try ring.program.line(containing: "sent 150")
      let capture = try scene.wholeCapture(path)
      capture.expectNoTrouble(samples: 150, stamps: way.stamps)
    }

    /// The ring disconnects after every 300 frames and comes back: one capture with a gap for each
    /// interruption.
    @Test(arguments: Way.hereWithEmulation)
    func goesOnWhenTheRingIsBack(_ way: Way) throws {
      let ring = try scene.emulatedRing(over: way, "--rate", "300", "--disconnect-after", "300")
      try expectGaps(3, each: 300, ring, "went silent (0x08, Connection Timeout)", way)
    }

    /// The same with bumble's ring, which closes the link itself.
    @Test(arguments: Way.here)
    func goesOnWhenABumbleRingIsBack(_ way: Way) throws {
      let ring = try scene.bumbleRing(over: way, "--rate", "300", "--disconnect-after", "150")
      try expectGaps(3, each: 150, ring, "closed the link (0x13, Remote User Terminated Connection)", way)
    }

    private func expectGaps(
      _ gaps: Int, each count: Int, _ ring: Scene.Peer, _ cause: String, _ way: Way
    ) throws {
      let path = scene.path("capture")
      let samples = gaps * count + 30
      // btvirt looks for the advertiser only once: a connect issued before it is back waits in vain.
      let result = try scene.ringtap(
        reaching: ring, "capture", ring.address, "--count", "\(samples)", "--timeout", "3", "--output", path)
      #expect(result.status == 0, "\(result.errors)")
      #expect(result.messages.count { $0.contains(cause) && $0.contains("reconnecting") } == gaps)
      #expect(result.messages.count { $0.contains("streaming again") } == gaps)
      #expect(result.output.contains("\(gaps) gaps, "))
      let capture = try scene.wholeCapture(path)
      capture.expectNoTrouble(samples: samples, stamps: way.stamps)
      #expect(capture.session.endReason == "count reached")
      #expect(capture.session.links == gaps + 1 && capture.session.gapCount == gaps)
      for gap in capture.session.gaps {
        #expect(cause.contains(try #require(gap.reason).name))
        #expect(try #require(gap.lengthMs) > 0)
      }
      #expect(try scene.tshark(capture.packetLog).count == samples)
      let order = try scene.demand("capinfos", ["-T", "-r", "-o", capture.packetLog]).output
      #expect(order == "\(capture.packetLog)\tTrue\n", "not in the order of times")
    }

    /// An unplugged adapter and a stream that ends are the same to a capture.
    @Test(arguments: Way.here)
    func keepsWhatCameBeforeTheControllerWent(_ way: Way) throws {
      let ring = try scene.bumbleRing(over: way, "--rate", "300")
      let path = scene.path("capture")
      let program = try scene.startRingtap(
        reaching: ring, "capture", ring.address, "--patience", "0", "--output", path)
      try ring.program.line(on: .errors, containing: "streaming 150")
      scene.unplug(ring)
      let result = try program.finish()
      #expect(result.status == 1)
      #expect(result.messages.count == 1)
      #expect(result.errors.contains(path))
      let capture = try scene.wholeCapture(path)
      capture.expectNoTrouble(samples: capture.rowCount, stamps: way.stamps)
      #expect(capture.rowCount > 0)
    }

    /// The scan has no time limit, but no device can be found any more.
    @Test(arguments: Way.here)
    func endsAScanWhenTheControllerWent(_ way: Way) throws {
      let ring = try scene.emulatedRing(over: way)
      let program = try scene.startRingtap(reaching: ring, "scan")
      try program.line(containing: "R02_A1B2")
      scene.unplug(ring)
      let result = try program.finish()
      #expect(result.status == 1)
      #expect(result.messages.count == 1)
    }
  }
}

extension InTestKernel {
  /// The same with features that only the test kernel has.
  @Suite final class InterruptedCaptureTests {
    private let scene: Scene

    init() throws { scene = try Scene() }
    isolated deinit { scene.end() }

    /// The link of a ring that vanishes silently stays up, because btvirt has no supervision timeout.
    @Test(arguments: [Way.kernel, .userChannel])
    func endsOnControlCThoughTheRingIsSilent(_ way: Way) throws {
      let ring = try scene.bumbleRing(over: way, "--rate", "300")
      let path = scene.path("capture")
      let program = try scene.startRingtap(reaching: ring, "capture", ring.address, "--output", path)
      try ring.program.line(on: .errors, containing: "streaming 150")
      ring.program.end()
      program.send(SIGINT)
      try program.finish().expectSuccess()
      let capture = try scene.wholeCapture(path)
      capture.expectNoTrouble(samples: capture.rowCount)
      #expect(capture.rowCount > 0)
      #expect(capture.session.endReason == "interrupted")
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
      let capture = try scene.wholeCapture(path)
      #expect(capture.rowCount > 500)
      #expect(capture.session.endReason.contains("disk"))
      #expect(capture.session.malformed == 0)
      #expect(try scene.tshark(capture.packetLog).count > 500)
      try scene.demand("umount", [disk])
    }
  }
}

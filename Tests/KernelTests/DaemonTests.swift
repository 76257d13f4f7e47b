import Foundation
import TestKit
import Testing

extension WithoutKernel {
  /// `ringtap daemon` as a service manager, a user and Prometheus see it.
  @Suite final class DaemonTests {
    private let scene: Scene

    init() throws { scene = try Scene() }
    isolated deinit { scene.end() }

    private struct Status: Decodable {
      struct Device: Decodable {
        var name: String
        var state: String
        var received: Int
        var lost: [String: Int]
        var directory: String?
      }
      var devices: [Device]
    }

    private var file: String { scene.path("ringtap.json") }
    private var socket: String { scene.path("status") }

    /// - Parameter devices: entries with the virtual ring's address and an address that no device has.
    private func write(_ devices: String, radio: String = "virtual:ring,rate=300", _ more: String = "") throws
    {
      try """
      {"directory": "\(scene.path("captures"))", "statusSocket": "\(socket)"\(more),
       "radio": {"transport": "\(radio)"},
       "devices": [\(devices)]}
      """.write(toFile: file, atomically: true, encoding: .utf8)
    }

    private static let ring = #"{"name": "left", "address": "70:CB:0D:00:A1:B2", "sensor": "ring"}"#
    private static let absent = #"{"name": "absent", "address": "70:CB:0D:00:A1:B3", "sensor": "cycling"}"#

    /// Requests the status until it meets the condition.
    private func status(_ isMet: (Status) -> Bool) throws -> Status {
      let end = ContinuousClock.now + Program.patience
      var last: Status?
      while ContinuousClock.now < end {
        let result = try scene.ringtap("status", "--socket", socket, "--json")
        last = result.status == 0 ? try result.objects(Status.self).first : nil
        if let last, isMet(last) { return last }
      }
      return try #require(nil, "never as wanted: \(String(describing: last))")
    }

    private func captures(_ device: String) -> [String] {
      let path = scene.path("captures/\(device)")
      return ((try? FileManager.default.contentsOfDirectory(atPath: path)) ?? []).sorted().map {
        "\(path)/\($0)"
      }
    }

    /// The daemon records, reports its status, reloads its file, keeps the old one if the new one is invalid,
    /// and ends cleanly.
    @Test func recordsAndIsAsked() throws {
      let port = try freePort()
      let notify = scene.path("notify")
      let manager = try scene.start(
        "python3",
        [
          "-uc",
          "import socket, sys\ns = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)\n"
            + "s.bind(sys.argv[1])\nprint('bound')\nwhile True: print(s.recv(4096).decode().replace(chr(10), ' '))",
          notify,
        ])
      try manager.line(containing: "bound")
      try write(Self.ring, #", "metrics": "127.0.0.1:\#(port)""#)
      let daemon = try scene.start(
        "env", ["NOTIFY_SOCKET=\(notify)", "WATCHDOG_USEC=400000", Place.ringtap, "daemon", file])
      try manager.line(containing: "READY=1 STATUS=recording 1 device")
      try manager.line(containing: "WATCHDOG=1")
      let standing = try status {
        $0.devices.first.map { $0.state == "streaming" && $0.received > 100 } ?? false
      }
      #expect(standing.devices[0].name == "left" && standing.devices[0].lost.values.allSatisfy { $0 == 0 })
      let text = try scene.ringtap("status", "--socket", socket)
      #expect(
        text.outputLines.count == 2 && text.output.contains("left") && text.output.contains("streaming"))

      let page = try scene.demand("curl", ["--silent", "--fail", "http://127.0.0.1:\(port)/metrics"])
        .outputLines
      #expect(page.contains("ringtap_up 1"))
      #expect(page.contains(#"ringtap_streaming{device="left"} 1"#))
      #expect(page.contains(#"ringtap_lost_total{device="left",queue="kernelQueue"} 0"#))
      #expect(try scene.run("curl", ["--silent", "--fail", "http://127.0.0.1:\(port)/"]).status == 22)

      try write(Self.ring + ", {\"name\": \"bad\"}")
      daemon.send(SIGHUP)
      try daemon.line(on: .errors, containing: "configuration unchanged")
      try daemon.line(on: .errors, containing: "\(file):3: \"address\" is missing")
      #expect(try status { _ in true }.devices.count == 1)
      try write(Self.ring + "," + Self.absent)
      daemon.send(SIGHUP)
      try daemon.line(on: .errors, containing: "reloaded, 2 devices")
      let both = try status { $0.devices.count == 2 }
      // The device that is in both files is not interrupted.
      #expect(both.devices[0].directory == standing.devices[0].directory)

      daemon.send(SIGTERM)
      let result = try daemon.finish()
      #expect(result.status == 0, "\(result.errors)")
      try manager.line(containing: "STOPPING=1")
      let folders = captures("left")
      #expect(folders.count == 1 && captures("absent").isEmpty)
      let folder = try CaptureFolder(try #require(folders.first))
      #expect(folder.session.received == folder.rowCount && folder.rowCount > 100)
      let nobody = try scene.ringtap("status", "--socket", socket)
      nobody.expectFailure(saying: "no daemon responds at \(socket)", "ringtap daemon FILE")
    }

    /// Without a radio the daemon waits for one and prints one message.
    @Test func waitsForItsRadio() throws {
      try write(Self.ring, radio: "unix:\(scene.path("controller"))")
      let daemon = try scene.start(Place.ringtap, ["daemon", file])
      try daemon.line(on: .errors, containing: "retrying every 5 s")
      let text = try scene.ringtap("status", "--socket", socket)
      #expect(text.output == "no adapter yet\n")
      daemon.send(SIGINT)
      #expect(try daemon.finish().status == 0)
    }

    @Test func saysWhatIsWrongWithItsFile() throws {
      try write(Self.ring)
      let good = try scene.ringtap("daemon", "--check", file)
      #expect(good.status == 0 && good.output == "\(file): valid, 1 device\n")
      try write(
        #"{"name": "left", "address": "70:CB:0D:00:A1:B2", "sensor": "ring", "link": {"interval": "fast"}}"#,
        radio: "virtual:ring\", \"mode\": \"sideways")
      let bad = try scene.ringtap("daemon", "--check", file)
      #expect(bad.status == 1)
      #expect(bad.errorLines.count == 3, "\(bad.errors)")
      #expect(bad.errors.contains("\(file):2: radio: ") && bad.errors.contains("\(file):3: link of left: "))
      let none = try scene.ringtap("daemon", scene.path("none.json"))
      none.expectFailure(saying: "none.json", "No such file")
    }
  }
}

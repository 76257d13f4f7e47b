import Foundation
import TestKit
import Testing

extension WithoutKernel {
  /// Wake-ups of the program, and scheduling of its receive thread.
  @Suite final class ReceiveThreadTests {
    private let scene: Scene

    init() throws { scene = try Scene() }
    isolated deinit { scene.end() }

    /// An emulated ring in another program.
    private func ring(_ options: String...) throws -> (address: String, transport: String) {
      let transport = "unix:" + scene.path("controller")
      let program = try scene.start(
        Place.ringtap, ["emulate", "ring", "--transport", transport, "--quiet"] + options)
      let words = try program.line(containing: "ready").split(separator: " ").map(String.init)
      try #require(words.count == 4)
      return (words[2], words[1])
    }

    /// The ring has sent everything: no thread of the capture wakes up, neither for a timer nor to check for
    /// data to write. The kernel counts each wake-up as a context switch of the thread. One thread is
    /// excluded: libdispatch, which Swift's thread pool uses, checks its workers each second.
    @Test(arguments: [[], ["--log-format", "pcapng"]])
    func anIdleCaptureSleeps(_ options: [String]) throws {
      let ring = try ring("--rate", "300", "--count", "300")
      let folder = scene.path("capture")
      let capture = try scene.start(
        Place.ringtap,
        ["capture", ring.address, "--transport", ring.transport, "--output", folder] + options)
      // Waits until everything sent is in the tables, then until about three seconds pass without a context
      // switch.
      let script = """
        switches() {
          cat /proc/"$1"/task/*/status |
            awk '/^Name/ { own = !/overcommit/ } own && /ctxt_switches/ { n += $2 } END { print n }'
        }
        until [ "$(cat "$0"/accelerometer.csv "$0"/ppg.csv "$0"/spo2.csv 2>/dev/null | wc -l)" = 303 ]; do
          sleep 0.1
        done
        until before=$(switches "$1"); sleep 3; [ "$(switches "$1")" = "$before" ]; do :; done
        ls /proc/"$1"/task | wc -l
        """
      let threads = try scene.demand("bash", ["-c", script, folder, "\(capture.identifier)"])
      #expect(
        (Int(threads.outputLines.last ?? "") ?? 0) >= 3, "receive thread, writer and main thread are there")
      capture.send(SIGINT)
      #expect(try capture.finish().status == 0)
    }

    @Test func whatTheThreadWasAskedForIsReported() throws {
      let folder = scene.path("capture")
      let result = try scene.ringtap(
        "capture", "--transport", "virtual:ring", "--count", "30", "--output", folder, "--spin", "50",
        "--cpu", "0",
        "--json")
      #expect(result.status == 0, "\(result.errors)")
      let said = #""receiveThread":{"spinMicroseconds":50,"processor":0}"#
      #expect(result.output.contains(said))
      #expect(try String(contentsOfFile: folder + "/session.json", encoding: .utf8).contains(said))
      let plain = try scene.ringtap(
        "capture", "--transport", "virtual:ring", "--count", "30", "--output", scene.path("plain"), "--json")
      #expect(!plain.output.contains("receiveThread"))
    }

    /// With an empty bounding set a program has no capability, even as root.
    @Test func aPriorityNeedsACapability() throws {
      let result = try scene.run(
        "setpriv",
        [
          "--bounding-set", "-all", "--inh-caps", "-all", Place.ringtap, "bench", "--transport",
          "virtual:source",
          "--realtime", "10",
        ])
      result.expectFailure(saying: "CAP_SYS_NICE", "cap_sys_nice")
    }

    @Test func aProcessorThatIsNotThereIsToldOf() throws {
      try scene.ringtap("bench", "--transport", "virtual:source", "--cpu", "1000")
        .expectFailure(saying: "processor 1000", "taskset")
    }
  }
}

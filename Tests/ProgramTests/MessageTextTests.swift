import Foundation
import TestKit
import Testing

/// Messages of commands that mislead a person once.
@Suite(.timeLimit(.minutes(2))) struct MessageTextTests {
  /// A log is imported into a temporary folder, which no message names.
  @Test(arguments: [["analyse"], ["convert", "--to", "wfdb"], ["convert", "--to", "edf"]])
  func aLogIsCalledByItsName(_ command: [String]) async throws {
    try await withFolder { folder in
      let (answers, samples) = (folder + "/answers.btsnoop", folder + "/warm")
      let ring = ["ring", "battery", "--transport", "virtual:ring", "--packet-log", answers]
      #expect(try await Ringtap.run(ring).status == 0)
      let thermometer = [
        "thermometer", "--count", "2", "--transport", "virtual:thermometer,rate=20", "--output", samples,
      ]
      #expect(try await Ringtap.run(thermometer).status == 0)
      for log in [answers, samples + "/packets.btsnoop"] {
        let run = try await Ringtap.run(command + [log, "--output", folder + "/new"])
        #expect(
          !run.errors.contains("ringtap-import") && !run.output.contains("ringtap-import"), "\(run.errors)")
        guard run.status != 0 else { continue }
        #expect(run.errors.contains(log), "\(run.errors)")
      }
    }
  }

  /// A measurement of a hundred seconds is not silent on a terminal.
  @Test @MainActor func aMeasurementShowsHowFarItIs() throws {
    let run = try TerminalRun(
      Place.ringtap, ["bench", "requests", "--transport", "virtual:source", "--write", "--count", "20"])
    #expect(try run.status() == 0)
    #expect(run.text.contains("0 of 20 reads   (Ctrl-C ends)"), "\(run.text)")
    #expect(run.text.contains("0 of 20 writes   (Ctrl-C ends)"), "\(run.text)")
    let notify = try TerminalRun(
      Place.ringtap,
      ["bench", "notify", "--transport", "virtual:source", "--duration", "0.2", "--settling", "0"])
    #expect(try notify.status() == 0)
    #expect(notify.text.contains("measuring for 0.2 s …"), "\(notify.text)")
  }
}

import Foundation
import TestKit
import Testing

/// `ringtap ring decode`.
@Suite struct RingDecodeCommandTests {
  /// - Parameter input: lines of standard input.
  private func decode(_ input: [String], _ arguments: [String] = []) async throws -> Program.Result {
    try await Ringtap.run(["ring", "decode"] + arguments, input: .text(input.map { $0 + "\n" }.joined()))
  }

  private static let battery =
    #"{"channel":"uart","direction":"ring->host","packets":["03400000000000000000000000000043"]}"#

  @Test func answersEachLine() async throws {
    let run = try await decode(RingProtocolVector.all.map(\.line))
    #expect(run.status == 0)
    #expect(run.errorLines == [])
    let answers = try run.outputLines.map { try #require(canonical(line: $0)) }
    #expect(answers == RingProtocolVector.all.map(\.expect))
  }

  @Test func goesOnAfterAWrongLine() async throws {
    let wrong = [
      "not JSON", "[]", #"{"channel":"usb","direction":"ring->host","packets":["00"]}"#,
      #"{"channel":"uart","direction":"up","packets":["00"]}"#,
      #"{"channel":"uart","direction":"ring->host","packets":"00"}"#,
      #"{"channel":"uart","direction":"ring->host","packets":["0x"]}"#,
      #"{"channel":"uart","direction":"ring->host","packets":["0g"]}"#,
      #"{"channel":"uart","direction":"ring->host","packets":[]}"#,
    ]
    let run = try await decode([Self.battery] + wrong + ["", Self.battery])
    #expect(run.status == 1)
    // The sixth is an empty packet, which is a damaged packet and not a malformed line.
    let answer = #"{"kind":"battery","level":64,"charging":false}"#
    #expect(run.outputLines == [answer, #"{"kind":"invalid","reason":"length"}"#, answer])
    #expect(run.errorLines.map { $0.prefix { $0 != ":" } } == [Substring](repeating: "ringtap", count: 7))
    let numbers = run.errorLines.compactMap { $0.split(separator: " ").dropFirst(2).first }
    #expect(numbers == ["2:", "3:", "4:", "5:", "6:", "8:", "9:"])
  }

  @Test func saysWhatPiecesHold() async throws {
    let pieces = RingProtocolVector.named("reassembly-split-3")
    let whole = RingProtocolVector.named("sleep-rt11cr-2-records")
    let run = try await decode([pieces.line], ["--contents"])
    #expect(run.outputLines.compactMap { canonical(line: $0) } == [whole.expect])
    #expect(run.status == 0)
  }
}

extension RingProtocolVector {
  /// The vector as a line of input.
  fileprivate var line: String {
    canonical([
      "name": name, "channel": channel, "direction": direction, "packets": packets.map { hexOf($0) },
    ])
  }
}

private func canonical(line: String) -> String? {
  (try? JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any]).map { canonical($0) }
}

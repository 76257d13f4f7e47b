import TestKit
import Testing

/// The program's `decode` command.
@Suite struct DecodeCommandTests {
  private func decode(_ input: String) async throws -> Program.Result {
    try await Ringtap.run(["decode"], input: .text(input))
  }

  /// A vector from the reference, in each form that a UUID and its value may have.
  @Test(
    arguments: [
      #"{"service":"180D","characteristic":"2A37","value":"16485401ec02"}"#,
      #"{"value":"16 48 54 01 EC 02","characteristic":"00002a37-0000-1000-8000-00805f9b34fb","name":"x"}"#,
      #"{"characteristic":"0x2a37","frames":["16485401ec02"],"service":null}"#,
    ])
  func decodesALine(_ line: String) async throws {
    let run = try await decode(line + "\n")
    #expect(
      run.output
        == #"{"heartRateBpm":72,"heartRateIs16Bit":false,"sensorContact":"detected","#
        + #""energyExpendedKilojoules":null,"rrIntervals1024ths":[340,748]}"# + "\n")
    #expect(run.errors.isEmpty)
    #expect(run.status == 0)
  }

  @Test func goesOnAfterWrongLines() async throws {
    let run = try await decode(
      """
      {"characteristic":"2A19","value":"2c"}
      nonsense
      {"characteristic":"FFF1","value":"00"}

      {"characteristic":"2A19","value":"2"}
      {"characteristic":"2A19"}
      {"characteristic":"2A19","value":5}
      {"characteristic":"2A19","value":"00","operation":"shout"}
      {"characteristic":"2A19","value":""}
      {"characteristic":"2A19","value":"65"}
      {"characteristic":"2A19","value":"00"}
      """)
    #expect(
      run.output.split(separator: "\n") == [
        #"{"batteryLevelPercent":44}"#, #"{"error":"truncated"}"#, #"{"error":"outOfRange","rawValue":101}"#,
        #"{"batteryLevelPercent":0}"#,
      ])
    let numbers = run.errors.split(separator: "\n").map { $0.split(separator: ":")[1] }
    #expect(numbers == [2, 3, 5, 6, 7, 8].map { " line \($0)" })
    #expect(run.status == 1)
  }

  /// Regression: a last line without a line end was held back.
  @Test(arguments: [
    (["decode"], #"{"characteristic":"2A19","value":"2c"}"#, #"{"batteryLevelPercent":44}"#),
    (
      ["ring", "decode"],
      #"{"channel":"uart","direction":"ring->host","packets":["03400000000000000000000000000043"]}"#,
      #"{"kind":"battery","level":64,"charging":false}"#
    ),
  ])
  func passesOverALineWithoutEnd(_ command: [String], _ line: String, _ decoded: String) async throws {
    let long = String(repeating: "0", count: 4_194_305)
    let run = try await Ringtap.run(command, input: .text([line, long, line, long].joined(separator: "\n")))
    #expect(run.output == decoded + "\n" + decoded + "\n")
    #expect(
      run.errors == "ringtap: line 2: it is longer than 4 MiB\nringtap: line 4: it is longer than 4 MiB\n")
    #expect(run.status == 1)
  }

  /// The previous frame's timestamp, as a number and as text: `pmd-ecg-type0` of the reference.
  @Test(arguments: ["100", #""100""#])
  func takesWhatTheOctetsDoNotSay(_ previous: String) async throws {
    let run = try await decode(
      #"{"characteristic":"FB005C82-02E7-F387-1CAD-8ACD2D8DF0C8","previousTimestampNanoseconds":"# + previous
        + #","value":"000094357700000000000280ff028000"}"#)
    #expect(run.output.contains(#""firstSampleTimestampNanoseconds":"1000000050""#))
    #expect(run.output.contains(#""samplesMicrovolts":[-32766,32770]"#))
    #expect(run.status == 0)
  }
}

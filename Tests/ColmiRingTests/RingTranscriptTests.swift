import Foundation
import JSONText
import TestKit
import Testing

import ColmiRing

/// Traffic of rings and hosts, compared with published captures and other programs' decodes.
@Suite struct RingTranscriptTests {
  @Test(arguments: RingProtocolVector.all)
  func saysWhatTheVectorExpects(_ vector: RingProtocolVector) throws {
    let objects = try vector.transcript.canonicalObjects()
    #expect(objects.count == 1)
    #expect(objects.first == vector.expect)
  }

  @Test func hasAllVectors() { #expect(RingProtocolVector.all.count == 101) }

  /// A log is read correctly if other frames are in between and frames are repeated or late.
  @Test(arguments: RingProtocolVector.all.filter { $0.packets.count > 2 && $0.channel == "uart" })
  func readsLogsThroughWhatElseIsSaid(_ vector: RingProtocolVector) throws {
    var transcript = try vector.transcript
    let others = ["73010000000000000000000000000074", "2ff40000000000000000000000000023"]
      .map { octetsOf($0) }
    transcript.packets = others + transcript.packets.reversed().flatMap { [$0, $0] + others }
    #expect(try transcript.canonicalObjects() == [vector.expect])
  }

  @Test func tellsThatALogStopped() throws {
    let vector = RingProtocolVector.named("hrlog-20240810")
    var transcript = try vector.transcript
    // 0x13 holds slot 240, and 0x14 slot 252.
    transcript.packets.removeAll { $0[1] == 0x13 }
    let object = try #require(try transcript.canonicalObjects().first)
    #expect(object.contains(#""complete":false"#))
    #expect(object.contains(#""nonZero":[[180,89],[192,107],[204,96],[216,107],[252,70]]"#))
  }

  @Test func saysWhatPiecesHold() throws {
    let pieces = RingProtocolVector.named("reassembly-split-3")
    let whole = RingProtocolVector.named("sleep-rt11cr-2-records")
    #expect(try pieces.transcript.canonicalObjects(.contents) == [whole.expect])
  }

  /// The packet size arrives unsolicited before the reply to setting the time, as in the capture.
  @Test func readsAnAnswerThroughWhatElseIsSaid() throws {
    let vector = RingProtocolVector.named("rsp-set-time-capabilities-r02")
    var transcript = try vector.transcript
    transcript.packets.insert(octetsOf("2ff40000000000000000000000000023"), at: 0)
    #expect(try transcript.canonicalObjects() == [vector.expect])
  }

  @Test func refusesWhatMakesNoObject() {
    var line = JSONLine()
    let battery = octetsOf("03400000000000000000000000000043")
    #expect(throws: RingTranscript.Failure.noPackets) {
      try RingTranscript(channel: .uart, direction: .ringToHost, packets: []).append(to: &line)
    }
    #expect(throws: RingTranscript.Failure.severalFrames) {
      try RingTranscript(channel: .uart, direction: .ringToHost, packets: [battery, battery]).append(
        to: &line)
    }
    #expect(line.octets.isEmpty)
  }

  /// Keys that are in no vector, from sections 3 and 4 of the protocol.
  @Test(arguments: [
    ("08000000000000000000000000000008", #"{"kind":"reboot"}"#, false),
    ("ff6666000000000000000000000000cb", #"{"kind":"factoryReset"}"#, false),
    ("3a03010100000000000000000000003f", #"{"kind":"temperatureSettings","enabled":true}"#, true),
    ("97ee0000000000000000000000000085", #"{"kind":"error","command":23,"code":238}"#, true),
    (
      "11ffff0000000000000000000000000f",
      #"{"kind":"unknown","command":17,"payload":"ffff000000000000000000000000"}"#, true
    ),
    // From an R12's capture, with the reference's names for the commands.
    ("61000000000000000000000000000061", #"{"kind":"messageFilterRead"}"#, false),
    (
      "61ffff0000000000000000000000005f",
      #"{"kind":"messageFilter","payload":"ffff000000000000000000000000"}"#, true
    ),
    (
      "3b01010001000000000000000000003e",
      #"{"kind":"touchSettings","payload":"0101000100000000000000000000"}"#, true
    ),
    ("05030000000000000000000000000008", #"{"kind":"displaySettingsRead"}"#, false),
    (
      "2b0200061c3c370002021023000000f9",
      #"{"kind":"menstruationSettingsWrite","payload":"0200061c3c370002021023000000"}"#, false
    ),
    ("a10500000000000000000000000000a6", #"{"kind":"raw","subtype":5}"#, true),
  ])
  func saysMore(_ packet: String, _ expected: String, isReply: Bool) throws {
    let transcript = RingTranscript(
      channel: .uart, direction: isReply ? .ringToHost : .hostToRing, packets: [octetsOf(packet)])
    var line = JSONLine()
    try transcript.append(to: &line)
    #expect(String(decoding: line.octets, as: UTF8.self) == expected + "\n")
  }

  @Test func takesNoWrongChecksumFromAHost() throws {
    let transcript = RingTranscript(
      channel: .bigData, direction: .hostToRing, packets: [octetsOf("bc270100fe00ff")])
    #expect(try transcript.canonicalObjects() == [#"{"kind":"invalid","reason":"checksum"}"#])
  }
}

extension RingProtocolVector {
  fileprivate var transcript: RingTranscript {
    get throws {
      RingTranscript(
        channel: try #require(RingTranscript.Channel(rawValue: channel)),
        direction: try #require(RingTranscript.Direction(rawValue: direction)), packets: packets)
    }
  }
}

extension RingTranscript {
  /// Each line as canonical JSON.
  fileprivate func canonicalObjects(_ detail: Detail = .reassembly) throws -> [String] {
    var line = JSONLine()
    try append(to: &line, detail)
    return try line.octets.split(separator: UInt8(ascii: "\n")).map { text in
      canonical(try #require(try JSONSerialization.jsonObject(with: Data(text)) as? [String: Any]))
    }
  }
}

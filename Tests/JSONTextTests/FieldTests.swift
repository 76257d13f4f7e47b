import JSONText
import Testing

/// A tree of fields as JSON, and the words and units of a name in text output.
@Suite struct FieldTests {
  private struct Reading: FieldSource {
    func describe(into fields: inout FieldList) {
      fields.member("heartRateBpm", 72)
      fields.member("energyExpendedKilojoules", nil as Int?)
      fields.member("temperatureCelsius", 36.5)
      fields.member("worn", true)
      fields.member("name", "a\"b\u{1B}")
      fields.member("payload", hex: [0x0A, 0xFF])
      fields.append(Field(nil, .text("for people alone")))
      fields.member("rows") { list in
        list.row(1, 2)
        list.object { $0.member("x", -1) }
      }
      fields.object("inner") { $0.member("code", 3, .hidden) }
      fields.append(Field("problem", .problem("2 are left"), .none, octets: 0..<2))
    }
  }

  /// RFC 8259; 0x1B would start a terminal command.
  @Test func writesJSON() {
    var line = JSONLine()
    line.object { $0.members(of: Reading()) }
    #expect(
      String(decoding: line.octets, as: UTF8.self)
        == #"{"heartRateBpm":72,"energyExpendedKilojoules":null,"temperatureCelsius":36.5,"worn":true,"#
        + #""name":"a\"b\u001b","payload":"0aff","rows":[[1,2],{"x":-1}],"inner":{"code":3},"#
        + #""problem":"2 are left"}"#)
  }

  @Test(
    arguments: [
      ("heartRateBpm", "heart rate", "beats/min"), ("runningSteps", "running steps", nil),
      ("distanceMeters", "distance", "m"), ("speedMetersPerSecond", "speed", "m/s"),
      ("spo2Percent", "SpO2", "%"), ("hrvLog", "HRV log", nil),
      ("rrIntervals1024ths", "RR intervals", "/1024 s"),
      ("magnitudeG", "magnitude", "g"), ("level", "level", nil), ("crc16", "CRC-16", nil), ("g", "g", nil),
      ("", "", nil),
    ] as [(String, String, String?)])
  func namesForPeople(_ name: String, _ words: String, _ unit: String?) {
    #expect(Field.words(of: name) == words)
    #expect(Field.unit(of: name) == unit)
  }
}

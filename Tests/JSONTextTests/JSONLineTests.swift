import Foundation
import JSONText
import Testing

@Suite struct JSONLineTests {
  private func text(_ body: (inout JSONLine) -> Void) -> String {
    var line = JSONLine()
    body(&line)
    return String(decoding: line.octets, as: UTF8.self)
  }

  /// The value that Foundation's JSON parser reads.
  private func parsed(_ text: String) throws -> Any {
    try JSONSerialization.jsonObject(with: Data(text.utf8), options: .fragmentsAllowed)
  }

  /// Exact for programs that read numbers as doubles.
  @Test(
    arguments: [
      (0, "0"), (-1, "-1"), (1_795_476_152_240_127_479, "1795476152240127479"), (.max, "9223372036854775807"),
      (.min, "-9223372036854775808"),
    ] as [(Int64, String)])
  func nanosecondsAreStrings(_ nanoseconds: Int64, _ expected: String) throws {
    let printed = text { line in
      line.object { line in
        line.member("a", nanoseconds: nanoseconds)
        line.key("b")
        line.value(nanoseconds: nanoseconds)
      }
    }
    #expect(printed == "{\"a\":\"\(expected)\",\"b\":\"\(expected)\"}")
    let document = try JSONDocument(Array(printed.utf8))
    #expect(document["a"]?.nanoseconds == nanoseconds)
    // In the format of older programs.
    #expect(try JSONDocument(Array("{\"a\":\(expected)}".utf8))["a"]?.nanoseconds == nanoseconds)
  }

  @Test func nestsAndSeparates() {
    let printed = text { line in
      line.object { line in
        line.member("a", 1)
        line.member(
          "b",
          array: { line in
            line.value(true)
            line.null()
            line.object { _ in }
            line.array { _ in }
            line.value("x")
          })
        line.member("c", object: { $0.member("d", false) })
        line.member("e", hex: [0x00, 0xAF, 0xFF].span)
        line.member("f", "static" as StaticString)
      }
      line.endLine()
      line.object { $0.member("g", -7) }
      line.endLine()
    }
    #expect(
      printed
        == #"{"a":1,"b":[true,null,{},[],"x"],"c":{"d":false},"e":"00afff","f":"static"}"# + "\n{\"g\":-7}\n")
  }

  @Test func startsAnewAfterRemoveAll() {
    let printed = text { line in
      line.array { $0.value(1) }
      line.removeAll()
      line.value(2)
    }
    #expect(printed == "2")
  }

  @Test func escapesEveryASCIICharacter() throws {
    for scalar in 0..<0x80 as Range<UInt8> {
      let string = "a" + String(UnicodeScalar(scalar)) + "b"
      let printed = text { $0.value(string) }
      #expect(try parsed(printed) as? String == string)
      #expect(printed.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F })
    }
  }

  @Test(arguments: ["", "Pulsgurt – Größe", "心率", "👩🏽‍⚕️", "\u{2028}\u{FEFF}", "a\u{0}b", "\"\\/"])
  func keepsText(_ string: String) throws {
    #expect(try parsed(text { $0.value(string) }) as? String == string)
    #expect(try parsed(text { $0.text(Array(string.utf8).span) }) as? String == string)
    let object = try parsed(text { line in line.object { $0.member(string, 1) } }) as? [String: Int]
    #expect(object == [string: 1])
  }

  @Test func repairsOctetsThatAreNotUTF8() throws {
    let octets: [UInt8] = [0x52, 0xFF, 0xC3, 0x28, 0xED, 0xA0, 0x80]
    let string = try #require(try parsed(text { $0.text(octets.span) }) as? String)
    #expect(string.hasPrefix("R\u{FFFD}"))
  }

  @Test(arguments: [
    0, -0.0, 1, 0.1, 1.0 / 3, .leastNonzeroMagnitude, .leastNormalMagnitude, .greatestFiniteMagnitude, 1e21,
    1e-7, 123456789.125,
    -36.65, 9_007_199_254_740_992,
  ])
  func readsBackAsTheSameNumber(_ number: Double) throws {
    let printed = text { $0.value(number) }
    #expect(Double(printed)?.bitPattern == number.bitPattern)
    let read = try #require(try parsed(printed) as? Double)
    #expect(read == number)
  }

  @Test(arguments: [Double.nan, .infinity, -.infinity])
  func hasNoWordForWhatIsNoNumber(_ number: Double) { #expect(text { $0.value(number) } == "null") }

  @Test func writesIntegersOfAnySize() {
    #expect(text { $0.value(Int64.min) } == "-9223372036854775808")
    #expect(text { $0.value(UInt64.max) } == "18446744073709551615")
    #expect(text { $0.value(UInt8(255)) } == "255")
  }
}

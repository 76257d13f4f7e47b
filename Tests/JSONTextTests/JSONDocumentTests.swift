import JSONText
import Testing

/// RFC 8259.
@Suite struct JSONDocumentTests {
  private func read(_ text: String) throws -> JSONDocument { try JSONDocument(Array(text.utf8)) }

  @Test(
    arguments: [
      ("null", .null), (" true\n", .flag(true)), ("false", .flag(false)), ("0", .number("0")),
      ("-1.5e+03", .number("-1.5e+03")), ("9223372036854775807", .number("9223372036854775807")),
      (#""""#, .text("")), (#""a\"\\\/\b\f\n\r\t""#, .text("a\"\\/\u{08}\u{0C}\n\r\t")),
      // The example in RFC 8259, 7: G clef, U+1D11E.
      (#""\uD834\uDD1E \u00e9é""#, .text("\u{1D11E} éé")),
      ("[]", .array([])), ("[ 1 , [2] ]", .array([.number("1"), .array([.number("2")])])),
      ("{}", .object([:])), (#"{ "a" : {"b":null} }"#, .object(["a": .object(["b": .null])])),
    ] as [(String, JSONDocument)])
  func reads(_ text: String, _ expected: JSONDocument) throws { #expect(try read(text) == expected) }

  @Test(arguments: [
    "", " ", "nul", "nulL", "01", "-", "+1", "1.", ".5", "1e", "0x10", "NaN", "'a'", #"""#, #""\x""#,
    #""\u12""#,
    #""\ud834""#, #""\ud834\u0041""#, #""\udd1e""#, "\"\u{01}\"", "[", "[1", "[1,", "[1,]", "[1 2]", "]",
    "{", #"{"a""#, #"{"a":"#, #"{"a":1"#, #"{"a":1,}"#, "{a:1}", "{1:1}", "1 2", "[] x",
    String(repeating: "[", count: 100_000),
  ])
  func refuses(_ text: String) {
    #expect(throws: JSONDocument.Failure.self) { try read(text) }
  }

  @Test func numbersFitOrAreNone() throws {
    let file = try read(#"{"a":65535,"b":65536,"c":-1,"d":1.0,"e":"7","f":null}"#)
    #expect(file["a"]?.integer(UInt16.self) == 65535)
    for key in ["b", "c", "d", "e", "f", "g"] { #expect(file[key]?.integer(UInt16.self) == nil) }
    #expect(file["f"] == nil)
    #expect(file["e"]?.text == "7")
  }

  /// Output of JSONLine is read back unchanged, including control characters and characters beyond the first
  /// plane.
  @Test func readsWhatJSONLineWrites() throws {
    let text = "a\u{00}\u{1F}\u{7F}\"\\/\n\u{1D11E}é"
    var line = JSONLine()
    line.object { $0.member("text", text) }
    line.endLine()
    #expect(try JSONDocument(line.octets)["text"]?.text == text)
  }
}

import BLEDissector
import Foundation
import JSONText
import TestKit
import Testing

/// Character classes, JSON and XML compared with Python's.
@Suite(.timeLimit(.minutes(2))) struct OutsideTextTests {
  /// Planes 0, 1 and 14. Other planes contain only letters or nothing.
  private static let scalars =
    (0...0x1FFFF).compactMap(Unicode.Scalar.init) + (0xE0000...0xE0FFF).compactMap(Unicode.Scalar.init)
  private static let all = String(String.UnicodeScalarView(scalars))

  /// Characters that control a terminal, break lines, change the writing direction or are invisible, as code
  /// points.
  private static let unseen = """
    import unicodedata
    unseen = {c for c in [*range(0x20000), *range(0xE0000, 0xE1000)] if unicodedata.category(chr(c)) in ('Cc', 'Cf', 'Zl', 'Zp')}
    # Fillers, the grapheme joiner, variation selectors and tags: Default_Ignorable_Code_Point of DerivedCoreProperties.txt.
    unseen |= {0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFFA0, *range(0x180B, 0x1810), *range(0xFE00, 0xFE10)}
    unseen |= {0x2065, *range(0xFFF0, 0xFFF9), *range(0xE0000, 0xE1000)}

    """

  private func python(_ script: String, _ arguments: [String] = []) async throws -> String {
    let result = try await Program.run("python3", ["-c", Self.unseen + script] + arguments)
    try #require(result.status == 0, "\(result.errors)")
    return result.output
  }

  @Test func knowsWhatIsNotSeen() async throws {
    let numbers = try await python("print(*sorted(unseen))").split(whereSeparator: \.isWhitespace)
    let theirs = Set(numbers.compactMap { UInt32($0) })
    #expect(theirs.count > 4_000)
    // Characters that only one of the two knows, from a later version of Unicode.
    let ours = Set(Self.scalars.filter(\.isUnseen).map(\.value))
    #expect(theirs.subtracting(ours).isEmpty)
    #expect(ours.subtracting(theirs).count < 40, "\(ours.subtracting(theirs))")
    for text in ["R02_A1B2", "Pulsgurt – Größe", "心率", "نبض", "µV °C …", "👩"] {
      #expect(text.printable == text)
    }
  }

  @Test func aTerminalGetsMarksOnly() {
    let shown = Array(Self.all.printable.unicodeScalars)
    #expect(shown.count == Self.scalars.count)
    #expect(shown.allSatisfy { !$0.isUnseen })
    #expect(zip(Self.scalars, shown).allSatisfy { $0.isUnseen ? $1 == "\u{FFFD}" : $0 == $1 })
    #expect("a\tb\nc\u{1B}[m".printableLines == "a\tb\nc\u{FFFD}[m")
    #expect("a\tb\nc".printable == "a\u{FFFD}b\u{FFFD}c")
  }

  /// The output contains nothing that a terminal would interpret, and parses to the original text.
  @Test func jsonEscapesWhatIsNotSeen() async throws {
    try await withFolder { folder in
      var line = JSONLine()
      line.object { $0.member(Self.all, Self.all) }
      try Data(line.octets).write(to: URL(filePath: folder + "/all.json"))
      let script = """
        import json, sys
        text = open(sys.argv[1], encoding='utf-8', newline='').read()
        document = json.loads(text)
        wanted = ''.join(chr(c) for c in [*range(0xD800), *range(0xE000, 0x20000), *range(0xE0000, 0xE1000)])
        print(document == {wanted: wanted}, sum(ord(c) in unseen for c in text))
        """
      #expect(try await python(script, [folder + "/all.json"]) == "True 0\n")
    }
    var shown = JSONLine(.replaced)
    shown.value("a\u{202E}b\u{E0041}")
    #expect(String(decoding: shown.octets, as: UTF8.self) == "\"a\u{FFFD}b\u{FFFD}\"")
  }

  /// Extensible Markup Language 1.0, 2.2: parsers reject control characters.
  @Test func aPictureOfAnyNameIsXML() async throws {
    try await withFolder { folder in
      let file = folder + "/all.svg"
      try Data(SVG.page(SVG.text(0, 0, Self.all), height: 10)).write(to: URL(filePath: file))
      let attribute = "<a b=\"\(Self.all.markup)\"/>"
      try Data(attribute.utf8).write(to: URL(filePath: folder + "/all.xml"))
      let script = """
        import sys
        from xml.etree import ElementTree
        picture = ElementTree.parse(sys.argv[1]).getroot().find('{http://www.w3.org/2000/svg}text').text
        value = ElementTree.parse(sys.argv[2]).getroot().get('b')
        print(picture == value, len(value), sum(ord(c) in unseen for c in value))
        """
      let lines = try await python(script, [file, folder + "/all.xml"])
      #expect(lines == "True \(Self.scalars.count) 0\n")
    }
  }
}

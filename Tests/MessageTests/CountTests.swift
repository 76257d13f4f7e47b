import BLEWire
import Foundation
import TestKit
import Testing

/// A number in a message agrees with its noun: "1 row", "2 rows".
@Suite struct CountTests {
  @Test(
    arguments: [
      (0, "0 rows", "0 replies are late"), (1, "1 row", "1 reply is late"),
      (2, "2 rows", "2 replies are late"),
      (11, "11 rows", "11 replies are late"), (-1, "-1 rows", "-1 replies are late"),
    ])
  func agrees(_ number: Int, _ short: String, _ long: String) {
    #expect(counted(number, "row") == short)
    #expect(counted(number, "reply is", "replies are") + " late" == long)
  }

  /// Nouns that are counted in messages.
  private static let nouns = """
    values|gaps|bytes|octets|samples|sensors|rows|dropouts|ticks|times|intervals|windows|measurements|minutes|\
    notifications|requests|combinations|publishers|duplicates|sessions|messages|reports|frames|records|packets|\
    replies|timeouts|days|years|steps|lines|links|characteristics|responses|differences|devices|streams|places|\
    stretches|pauses|hours|captures|services|silences|advertisers|adapters|connections|files|tables|bonds|keys|\
    attributes|problems|entries|signals|beats|handles|updates|events|channels|changes|dialogues|seconds
    """

  /// A message that writes a number before a plural itself is wrong for 1. Fractions are not, nor are numbers in
  /// text form.
  @Test func eachCountInASourceAgrees() throws {
    let files = try ["Sources", "Tools/Harness"].flatMap { folder in
      let names = try #require(FileManager.default.enumerator(atPath: "\(Place.root)/\(folder)"))
      return names.compactMap { ($0 as? String).map { "\(folder)/\($0)" } }
    }
    let nested = #"\((?:[^()"]|\((?:[^()"]|\([^()"]*\))*\))*\)"#
    let pattern = try Regex(#"\\("# + nested + #") (?:more |partial |of )?(?:"# + Self.nouns + #")\b"#)
    let fraction =
      #/fixed\(|rounded\(|number\(|milliseconds\(|range\(|grouped\(|precise\(|[lL]imit\)|maximum\w+\)/#
    // Text of the user, a fraction of a number that cannot be 1, or the unit beats/min. Limits are not 1 either.
    let texts: Set = [
      "\\(payload)", "\\(rate)", "\\(days)", "\\(index + 1)", "\\(beatsPerMinute)", "\\(Self.text(rate))",
    ]
    var wrong: [String] = []
    var read = 0
    for file in files where file.hasSuffix(".swift") {
      read += 1
      let text = try String(contentsOfFile: "\(Place.root)/\(file)", encoding: .utf8)
      for line in text.split(separator: "\n") {
        let code = line.drop { $0 == " " }
        guard !code.hasPrefix("//"), !code.contains("precondition") else { continue }
        for match in code.matches(of: pattern) {
          let found = String(code[match.range])
          guard !found.contains(fraction), !texts.contains(where: found.hasPrefix) else { continue }
          wrong.append("\(file): \(found)")
        }
      }
    }
    #expect(read > 200)
    #expect(wrong.isEmpty, "\(wrong.joined(separator: "\n"))")
  }
}

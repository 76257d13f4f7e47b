import JSONText

/// Style of a piece of text.
package enum LiveStyle: Hashable, Sendable {
  case plain, title, label, faint, wave, good, doubtful, bad

  /// The escape sequence's parameter: Select Graphic Rendition, ECMA-48, 8.3.117.
  var code: String {
    switch self {
    case .plain: ""
    case .title: "1"
    case .label: "1"
    case .faint: "2"
    case .wave: "36"
    case .good: "32"
    case .doubtful: "33"
    case .bad: "1;31"
    }
  }
}

/// One line of the live view.
package struct LiveLine: Hashable, Sendable {
  package struct Piece: Hashable, Sendable {
    var text: String
    var style: LiveStyle
  }

  package private(set) var pieces: [Piece] = []
  /// Width in terminal cells.
  package private(set) var width = 0

  init() {}

  init(_ text: String, _ style: LiveStyle = .plain) { append(text, style) }

  package var text: String { pieces.reduce(into: "") { $0 += $1.text } }

  mutating func append(_ text: String, _ style: LiveStyle = .plain) {
    guard !text.isEmpty else { return }
    pieces.append(Piece(text: text, style: style))
    width += LiveText.width(text)
  }

  mutating func append(_ line: LiveLine) {
    pieces += line.pieces
    width += line.width
  }

  mutating func pad(to column: Int) {
    if column > width { append(String(repeating: " ", count: column - width)) }
  }

  /// Joins parts into a line, the most important part first. Omits parts that do not fit.
  ///
  /// - Parameters:
  ///   - trailing: the part at the right end, which has priority over all other parts.
  static func fitting(
    _ parts: [LiveLine], trailing: LiveLine = LiveLine(), width: Int, _ characters: LiveCharacters
  ) -> LiveLine {
    let trailing = trailing.width <= width ? trailing : LiveLine()
    let limit = trailing.width > 0 ? width - trailing.width - 2 : width
    var line = LiveLine()
    for part in parts where part.width > 0 {
      let gap = line.width > 0 ? 2 : 0
      if line.width + gap + part.width <= limit {
        if gap > 0 { line.append("  ") }
        line.append(part)
      } else if line.width == 0, limit > 0 {
        line.append(
          LiveText.cut(part.text, to: limit, characters), part.pieces.first?.style ?? .plain)
      }
    }
    guard trailing.width > 0 else { return line }
    line.pad(to: width - trailing.width)
    line.append(trailing)
    return line
  }
}

/// Character set of a terminal.
package enum LiveCharacters: Hashable, Sendable {
  case unicode, ascii

  /// Chooses the character set from the locale variables `LC_ALL`, `LC_CTYPE` and `LANG`; the first non-empty
  /// variable counts. The font of the Linux console has no Braille characters.
  package init(locale names: [String?], terminal: String?) {
    let locale = names.compactMap(\.self).first { !$0.isEmpty } ?? ""
    let part = locale.split(separator: "@").first?.split(separator: ".").dropFirst().first ?? ""
    let isUTF8 = part.lowercased().filter { $0 != "-" } == "utf8"
    self = isUTF8 && terminal != "linux" ? .unicode : .ascii
  }

  var ellipsis: String { self == .unicode ? "…" : ".." }
  var line: Character { self == .unicode ? "─" : "-" }
  private var dot: String { self == .unicode ? "·" : "-" }

  /// Returns the display form of a column's unit.
  func unit(_ unit: String) -> String {
    switch (unit, self) {
    case ("Cel", .unicode): "°C"
    case ("Cel", .ascii): "C"
    case ("uV", .unicode): "µV"
    case ("1/min", _): "/min"
    // Counts are shown without a unit.
    case ("counts", _): ""
    default: unit
    }
  }
}

/// Text for one line of a terminal.
enum LiveText {
  /// Returns text from a device without unsafe characters. Replaces control sequences, changes of the writing
  /// direction, and characters that combine with their neighbours.
  static func safe(_ text: String, _ characters: LiveCharacters) -> String {
    var safe = String.UnicodeScalarView()
    for scalar in text.unicodeScalars {
      if characters == .ascii, !(0x20..<0x7F).contains(scalar.value) {
        safe.append("?")
      } else {
        safe.append(isSafe(scalar) ? scalar : "\u{FFFD}")
      }
    }
    return String(safe)
  }

  /// Returns whether a character is safe. The width of unassigned and private-use characters is unknown.
  private static func isSafe(_ scalar: Unicode.Scalar) -> Bool {
    switch scalar.properties.generalCategory {
    case .privateUse, .unassigned: false
    default: !scalar.isUnseen
    }
  }

  /// Returns the width in terminal cells.
  static func width(_ text: String) -> Int { text.unicodeScalars.reduce(0) { $0 + width($1) } }

  /// Returns the longest prefix that fits into `limit` cells. If text was cut off, the prefix ends with an
  /// ellipsis.
  static func cut(_ text: String, to limit: Int, _ characters: LiveCharacters) -> String {
    guard width(text) > limit else { return text }
    var rest = limit - width(characters.ellipsis)
    guard rest >= 0 else { return String(repeating: ".", count: max(0, limit)) }
    var cut = String.UnicodeScalarView()
    for scalar in text.unicodeScalars {
      rest -= width(scalar)
      if rest < 0 { break }
      cut.append(scalar)
    }
    return String(cut) + characters.ellipsis
  }

  private static func width(_ scalar: Unicode.Scalar) -> Int {
    switch scalar.properties.generalCategory {
    case .nonspacingMark, .enclosingMark: 0
    default: isWide(scalar.value) ? 2 : 1
    }
  }

  /// Returns whether the character is in a block of wide characters. Unicode Standard Annex 11,
  /// EastAsianWidth.txt.
  private static func isWide(_ value: UInt32) -> Bool {
    switch value {
    case 0x1100...0x115F, 0x2E80...0x303E, 0x3041...0xA4CF, 0xA960...0xA97C, 0xAC00...0xD7A3, 0xF900...0xFAFF,
      0xFE30...0xFE6F, 0xFF00...0xFF60, 0xFFE0...0xFFE6, 0x1F300...0x1F64F, 0x1F680...0x1F6FF,
      0x1F900...0x1F9FF, 0x20000...0x3FFFD:
      true
    default: false
    }
  }
}

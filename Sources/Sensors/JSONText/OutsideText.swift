/// Sanitizes text from outside, such as a name from an advertisement, a file or a broker.
///
/// Use `printable` for a terminal, `markup` for SVG and HTML. `JSONLine` escapes the same characters; a
/// program that parses the JSON gets the original text.
extension Unicode.Scalar {
  /// Whether the character is not visible text: it controls a terminal (C0, DEL, C1), breaks a line, changes
  /// the writing direction, or is invisible, so that different names would look the same.
  ///
  /// These are Unicode's general categories Cc, Cf, Zl and Zp, and the characters with the property
  /// Default_Ignorable_Code_Point, which includes fillers and variation selectors. The joiners U+200C and
  /// U+200D are also included. A Persian name or a composed emoji is therefore shown in parts, and no name
  /// can imitate another name.
  package var isUnseen: Bool {
    if value < 0x7F { return value < 0x20 }
    switch properties.generalCategory {
    case .control, .format, .lineSeparator, .paragraphSeparator: return true
    default: return properties.isDefaultIgnorableCodePoint
    }
  }

  /// Whether XML forbids the character, even escaped. Extensible Markup Language 1.0, 2.2. Surrogates are not
  /// scalars.
  fileprivate var isNoXML: Bool { value == 0xFFFE || value == 0xFFFF }
}

extension String {
  /// The text as one line or part of a line for a terminal. Invisible characters and line feeds become
  /// U+FFFD.
  package var printable: String { replacingUnseen { _ in false } }

  /// The text as lines for a terminal. Like `printable`, but keeps line feeds and tabs.
  package var printableLines: String { replacingUnseen { $0 == "\n" || $0 == "\t" } }

  /// The text as content of an XML or HTML document or of a quoted attribute value. Invisible characters and
  /// characters that XML forbids become U+FFFD.
  package var markup: String {
    unicodeScalars.reduce(into: "") { markup, scalar in
      switch scalar {
      case "&": markup += "&amp;"
      case "<": markup += "&lt;"
      case ">": markup += "&gt;"
      case "\"": markup += "&quot;"
      default: markup.unicodeScalars.append(scalar.isUnseen || scalar.isNoXML ? "\u{FFFD}" : scalar)
      }
    }
  }

  /// Like `printable`, for a caller that escapes XML's special characters itself.
  package var printableInXML: String {
    String(String.UnicodeScalarView(printable.unicodeScalars.map { $0.isNoXML ? "\u{FFFD}" : $0 }))
  }

  private func replacingUnseen(except isFine: (Unicode.Scalar) -> Bool) -> String {
    func isMeant(_ scalar: Unicode.Scalar) -> Bool { scalar.isUnseen && !isFine(scalar) }
    guard utf8.contains(where: { $0 < 0x20 || $0 >= 0x7F }), unicodeScalars.contains(where: isMeant) else {
      return self
    }
    return String(String.UnicodeScalarView(unicodeScalars.map { isMeant($0) ? "\u{FFFD}" : $0 }))
  }
}

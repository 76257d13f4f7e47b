/// Text from outside, such as a name from the air, a file or a broker, made fit for whoever reads it.
///
/// All of it is decided here: by `printable` for a terminal, by `markup` for SVG and HTML; `JSONLine` escapes the same
/// characters, so that a program that parses it has the text as it came.
extension Unicode.Scalar {
  /// Whether it is no mark on paper: it steers a terminal (C0, DEL, C1), breaks a line, turns the direction of writing, or
  /// is not seen at all, so that two names look the same which are not.
  ///
  /// Unicode's general categories Cc, Cf, Zl and Zp, and its property Default_Ignorable_Code_Point, which has the fillers and
  /// the variation selectors too. The joiners U+200C and U+200D are among them: a Persian name or an emoji made of several
  /// is shown in its parts, and no name hides behind another one.
  package var isUnseen: Bool {
    if value < 0x7F { return value < 0x20 }
    switch properties.generalCategory {
    case .control, .format, .lineSeparator, .paragraphSeparator: return true
    default: return properties.isDefaultIgnorableCodePoint
    }
  }

  /// Whether XML may not have it, not even escaped: Extensible Markup Language 1.0, 2.2. Surrogates are no scalars.
  fileprivate var isNoXML: Bool { value == 0xFFFE || value == 0xFFFF }
}

extension String {
  /// One line for a terminal, or a part of one: what is not seen, line feeds included, becomes U+FFFD.
  package var printable: String { replacingUnseen { _ in false } }

  /// Lines for a terminal: the same but for line feeds and tabs.
  package var printableLines: String { replacingUnseen { $0 == "\n" || $0 == "\t" } }

  /// A part of an XML or HTML document's text, or of an attribute's value in quotation marks: what is not seen and what XML
  /// may not have become U+FFFD.
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

  /// `printable`, for whoever writes XML and escapes the marks of that alone.
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

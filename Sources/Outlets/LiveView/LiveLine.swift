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

  /// Joins parts, the most important first. Omits parts that do not fit.
  ///
  /// - Parameters:
  ///   - trailing: the part at the right end. It has priority over all other parts.
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

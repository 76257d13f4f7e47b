/// The octets that draw the live view on a terminal, below what was written before it.
///
/// Between two frames the terminal is as it was found, only with some lines more: no alternate screen, no mode of its own,
/// the cursor visible and behind the last line. So whatever ends the process, `kill -9` included, leaves it usable.
package struct LiveFrames: Sendable {
  package let isColored: Bool
  /// What is on the screen, with the cursor behind its last line.
  private var shown: [LiveLine] = []
  private var columns = 0
  private var rows = 0

  // ECMA-48 and the DEC private modes that terminals share: 7 wraps long lines, 25 shows the cursor.
  private static let begin = "\u{1B}[?25l\u{1B}[?7l"
  private static let end = "\u{1B}[?7h\u{1B}[?25h"
  private static let eraseLine = "\u{1B}[K"
  private static let eraseBelow = "\u{1B}[J"

  package init(isColored: Bool) { self.isColored = isColored }

  /// Draws these lines in the place of those before; of lines that stay only what has changed.
  ///
  /// - Parameters:
  ///   - columns, rows: the terminal's size now.
  package mutating func draw(_ lines: [LiveLine], columns: Int, rows: Int) -> [UInt8] {
    let before = height(columns)
    let isNew = (shown.count, self.columns, self.rows) != (lines.count, columns, rows)
    var text = Self.begin + top(before)
    for (place, line) in lines.enumerated() {
      let isLast = place == lines.count - 1
      // The cursor ends behind the last line, where keys that are typed show.
      if isNew || isLast || shown[place] != line {
        if isLast, before > lines.count { text += Self.eraseBelow }
        text += octets(line)
        // At the right edge it would erase the last character.
        if line.width < columns { text += Self.eraseLine }
      }
      if !isLast { text += "\r\n" }
    }
    (shown, self.columns, self.rows) = (lines, columns, rows)
    return Array((text + Self.end).utf8)
  }

  /// Writes text, with its line's end, above the view.
  package mutating func message(_ text: String) -> [UInt8] {
    let (lines, columns, rows) = (shown, columns, rows)
    let above = Array((clear() + text).utf8)
    return lines.isEmpty ? above : above + draw(lines, columns: columns, rows: rows)
  }

  /// Takes the view away: the cursor is where it began.
  package mutating func erase() -> [UInt8] { Array(clear().utf8) }

  /// Leaves the view where it is, and goes on below: somebody else may have written meanwhile.
  package mutating func leave() -> [UInt8] {
    guard !shown.isEmpty else { return [] }
    shown = []
    return Array("\r\n".utf8)
  }

  /// Line by line: where a screen is erased as a whole, some terminals keep it in the scrollback.
  private mutating func clear() -> String {
    guard !shown.isEmpty else { return "" }
    let height = height(columns)
    shown = []
    let lines = [String](repeating: Self.eraseLine, count: height).joined(separator: "\r\n")
    return top(height) + lines + top(height)
  }

  /// Lines of the screen that the view takes. Where the terminal has become narrower, it has broken lines that are now
  /// too long.
  private func height(_ columns: Int) -> Int {
    shown.reduce(0) { $0 + max(1, ($1.width + columns - 1) / max(1, columns)) }
  }

  /// From the last of so many lines to the begin of the first.
  private func top(_ height: Int) -> String { height > 1 ? "\u{1B}[\(height - 1)A\r" : "\r" }

  private func octets(_ line: LiveLine) -> String {
    guard isColored else { return line.text }
    return line.pieces.reduce(into: "") { text, piece in
      let code = piece.style.code
      text += code.isEmpty ? piece.text : "\u{1B}[\(code)m\(piece.text)\u{1B}[m"
    }
  }
}

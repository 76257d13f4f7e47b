/// Encodes the bytes that draw the live view on a terminal, below the previous output.
///
/// Between frames the terminal is in its normal state, with some lines added: no alternate screen, no special
/// mode, and the cursor visible after the last line. The terminal therefore stays usable after `kill -9`.
package struct LiveFrames: Sendable {
  package let isColored: Bool
  /// Lines on the screen; the cursor is after the last line.
  private var shown: [LiveLine] = []
  private var columns = 0
  private var rows = 0

  // Escape sequences of ECMA-48, and DEC private modes that terminals commonly support: mode 7 wraps long
  // lines, mode 25 shows the cursor.
  private static let begin = "\u{1B}[?25l\u{1B}[?7l"
  private static let end = "\u{1B}[?7h\u{1B}[?25h"
  private static let eraseLine = "\u{1B}[K"
  private static let eraseBelow = "\u{1B}[J"

  package init(isColored: Bool) { self.isColored = isColored }

  /// Draws lines over the previous lines. Does not redraw unchanged lines.
  ///
  /// - Parameters:
  ///   - columns, rows: current size of the terminal.
  package mutating func draw(_ lines: [LiveLine], columns: Int, rows: Int) -> [UInt8] {
    let before = height(columns)
    let isNew = (shown.count, self.columns, self.rows) != (lines.count, columns, rows)
    var text = Self.begin + top(before)
    for (place, line) in lines.enumerated() {
      let isLast = place == lines.count - 1
      // The last line is redrawn, because typed keys are echoed after it.
      if isNew || isLast || shown[place] != line {
        if isLast, before > lines.count { text += Self.eraseBelow }
        text += octets(line)
        // At the right edge, erasing would remove the last character.
        if line.width < columns { text += Self.eraseLine }
      }
      if !isLast { text += "\r\n" }
    }
    (shown, self.columns, self.rows) = (lines, columns, rows)
    return Array((text + Self.end).utf8)
  }

  /// Writes text above the view. The text must end with a line feed.
  package mutating func message(_ text: String) -> [UInt8] {
    let (lines, columns, rows) = (shown, columns, rows)
    let above = Array((clear() + text).utf8)
    return lines.isEmpty ? above : above + draw(lines, columns: columns, rows: rows)
  }

  /// Erases the view. The cursor returns to the start of the view.
  package mutating func erase() -> [UInt8] { Array(clear().utf8) }

  /// Leaves the view on the screen and continues below the view, because another program may have written to
  /// the terminal.
  package mutating func leave() -> [UInt8] {
    guard !shown.isEmpty else { return [] }
    shown = []
    return Array("\r\n".utf8)
  }

  /// Erases single lines, because some terminals move an erased screen to the scrollback.
  private mutating func clear() -> String {
    guard !shown.isEmpty else { return "" }
    let height = height(columns)
    shown = []
    let lines = [String](repeating: Self.eraseLine, count: height).joined(separator: "\r\n")
    return top(height) + lines + top(height)
  }

  /// Returns the number of screen lines that the view occupies. If the terminal has become narrower, the
  /// terminal wraps lines that are too long.
  private func height(_ columns: Int) -> Int {
    shown.reduce(0) { $0 + max(1, ($1.width + columns - 1) / max(1, columns)) }
  }

  /// Moves the cursor from the last of `height` lines to the start of the first line.
  private func top(_ height: Int) -> String { height > 1 ? "\u{1B}[\(height - 1)A\r" : "\r" }

  private func octets(_ line: LiveLine) -> String {
    guard isColored else { return line.text }
    return line.pieces.reduce(into: "") { text, piece in
      let code = piece.style.code
      text += code.isEmpty ? piece.text : "\u{1B}[\(code)m\(piece.text)\u{1B}[m"
    }
  }
}

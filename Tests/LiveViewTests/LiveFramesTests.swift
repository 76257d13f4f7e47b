import Testing

@testable import LiveView

/// Bytes that the live view writes to the terminal, compared with ECMA-48 sequences written by hand.
struct LiveFramesTests {
  private static let begin = "\u{1B}[?25l\u{1B}[?7l"
  private static let end = "\u{1B}[?7h\u{1B}[?25h"

  private static func text(_ octets: [UInt8]) -> String { String(decoding: octets, as: UTF8.self) }
  private static let first = begin + "\rone\u{1B}[K\r\ntwo\u{1B}[K\r\nthree\u{1B}[K" + end
  private static let erased = "\u{1B}[2A\r\u{1B}[K\r\n\u{1B}[K\r\n\u{1B}[K\u{1B}[2A\r"
  private static let lines = [LiveLine("one", .bad), LiveLine("two"), LiveLine("three")]

  @Test func drawsOnlyWhatHasChanged() {
    var frames = LiveFrames(isColored: false)
    #expect(
      Self.text(frames.draw(Self.lines, columns: 80, rows: 24))
        == Self.first)
    let changed = [Self.lines[0], LiveLine("2"), Self.lines[2]]
    #expect(
      Self.text(frames.draw(changed, columns: 80, rows: 24))
        == Self.begin + "\u{1B}[2A\r\r\n2\u{1B}[K\r\nthree\u{1B}[K" + Self.end)
    #expect(Self.text(frames.erase()) == Self.erased)
    #expect(frames.erase() == [])
  }

  @Test func messagesStandAbove() {
    var frames = LiveFrames(isColored: false)
    #expect(Self.text(frames.message("before\n")) == "before\n")
    _ = frames.draw(Self.lines, columns: 80, rows: 24)
    #expect(
      Self.text(frames.message("lost\n"))
        == Self.erased + "lost\n" + Self.first)
  }

  /// A terminal that becomes narrower wraps lines that no longer fit, so the view starts that many lines
  /// higher.
  @Test func followsANarrowerTerminal() {
    var frames = LiveFrames(isColored: false)
    _ = frames.draw([LiveLine(String(repeating: "x", count: 80)), LiveLine("y")], columns: 80, rows: 24)
    #expect(
      Self.text(frames.draw([LiveLine("x"), LiveLine("y")], columns: 30, rows: 24))
        == Self.begin + "\u{1B}[3A\rx\u{1B}[K\r\n\u{1B}[Jy\u{1B}[K" + Self.end)
  }

  @Test func leavesWhatIsShown() {
    var frames = LiveFrames(isColored: false)
    #expect(frames.leave() == [])
    _ = frames.draw(Self.lines, columns: 80, rows: 24)
    #expect(Self.text(frames.leave()) == "\r\n")
    #expect(Self.text(frames.message("after\n")) == "after\n")
  }

  @Test func colours() {
    var frames = LiveFrames(isColored: true)
    #expect(
      Self.text(frames.draw(Self.lines, columns: 80, rows: 24))
        == Self.begin + "\r\u{1B}[1;31mone\u{1B}[m\u{1B}[K\r\ntwo\u{1B}[K\r\nthree\u{1B}[K" + Self.end)
  }
}

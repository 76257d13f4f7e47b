package import BLELinux
package import BLEWire

/// Reads standard input line by line in bounded memory.
package struct InputLines {
  package static let octets = Limit(
    4_194_304, "bytes of a line of standard input", by: .program, whenFull: "the line is skipped",
    counted: "a message with its number, and exit status 1")

  package enum Line {
    case text(String)
    /// The line is longer than the limit.
    case tooLong
  }

  private static let chunk = 65_536

  private var chunk: [UInt8] = []
  private var place = 0
  private var isOver = false

  package init() {}

  /// Returns the next line without its terminator; `nil` after the last. Invalid UTF-8 becomes U+FFFD.
  package mutating func next() throws(SystemError) -> Line? {
    var line: [UInt8] = []
    var (isTooLong, isBegun) = (false, false)
    while true {
      if place == chunk.count {
        if !isOver { chunk = try StandardStream.input.read(upTo: Self.chunk) }
        place = 0
        isOver = chunk.isEmpty
        if isOver { break }
      }
      isBegun = true
      let end = chunk[place...].firstIndex(of: UInt8(ascii: "\n"))
      isTooLong = isTooLong || line.count + (end ?? chunk.count) - place > Self.octets.count
      if isTooLong { line = [] } else { line += chunk[place..<(end ?? chunk.count)] }
      place = end.map { $0 + 1 } ?? chunk.count
      if end != nil { break }
    }
    guard isBegun else { return nil }
    if isTooLong { return .tooLong }
    if line.last == UInt8(ascii: "\r") { line.removeLast() }
    return .text(String(decoding: line, as: UTF8.self))
  }
}

import BLELinux
import BLEPacketLog

/// Reads the lines of a text table. Memory use does not grow with the table.
struct TableLines: ~Copyable {
  /// The reason why a line cannot be read.
  enum Fault: Error, CustomStringConvertible {
    case cutOff, tooLong
    /// Zero bytes, at the end of the file or before other lines.
    case zeros(atEnd: Bool)
    case input(CompressedInput.Problem)

    var description: String {
      switch self {
      case .cutOff: "it is cut off"
      case .tooLong: "it is too long"
      case .zeros(let atEnd):
        "it contains zero bytes: the power failed before it was on disk"
          + (atEnd ? "" : "; the lines after them are left out")
      case .input(let problem): "\(problem)"
      }
    }
  }

  /// The last line read, without its line feed.
  private(set) var line: [UInt8] = []
  /// Number of that line, or of the invalid one; the first is 1.
  private(set) var number = 0
  /// Longest line, in bytes.
  private let limit: Int
  private var input: CompressedInput
  private var piece: [UInt8] = []
  private var taken = 0

  /// Opens the table's file, compressed or not.
  init(path: String, limit: Int) throws(SystemError) {
    input = try CompressedInput(regularFile: path)
    self.limit = limit
    line.reserveCapacity(limit)
  }

  /// Advances to the next line; returns `false` at the end.
  mutating func next() throws(Fault) -> Bool {
    line.removeAll(keepingCapacity: true)
    number += 1
    while true {
      if taken == piece.count, try !fill() {
        guard line.isEmpty else { throw .cutOff }
        return false
      }
      let octet = piece[taken]
      taken += 1
      if octet == UInt8(ascii: "\n") { break }
      if octet == 0 { throw .zeros(atEnd: try skipZeros()) }
      guard line.count < limit else { throw .tooLong }
      line.append(octet)
    }
    if line.last == UInt8(ascii: "\r") { line.removeLast() }
    return true
  }

  /// Skips zero bytes.
  ///
  /// - Returns: whether the file ends after them.
  private mutating func skipZeros() throws(Fault) -> Bool {
    while true {
      while taken < piece.count {
        if piece[taken] != 0 { return false }
        taken += 1
      }
      if try !fill() { return true }
    }
  }

  private mutating func fill() throws(Fault) -> Bool {
    taken = 0
    piece = []
    do throws(CompressedInput.Problem) { piece = try input.next() } catch { throw .input(error) }
    return !piece.isEmpty
  }
}

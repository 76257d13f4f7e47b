package import BLELinux
import Recording

/// The file of one table that is collected: how many of its rows are there, and what came twice or not at all.
///
/// The number of the next row is that of the file's rows and of those that are known to be missing, which is why the
/// latter are kept in `collect.json`.
struct CollectedTable {
  struct Counts: Hashable, Sendable {
    /// Written by this run.
    var received = 0
    /// Came once more, and were left out.
    var duplicated = 0
    /// Will never come.
    var missing = 0
    /// How often the publisher was asked for what was missing.
    var requests = 0
  }

  private static let pieceByteCount = 1 << 16

  let path: String
  /// Of the header. Within one run only: nobody outside can make two alike.
  let headerHash: Int
  /// Of rows in the file.
  private(set) var rows = 0
  /// Of the file's whole lines.
  private var byteCount = 0
  var counts = Counts()
  /// Rows of which at least one message told.
  var seen = 0

  /// The number of the row that comes next.
  var next: Int { rows + counts.missing }

  /// Goes on with a file that is there, or begins one. What a kill left of a row is cut off with the next one.
  ///
  /// - Throws: `Refusal` where the file has another header.
  init(_ path: String, header: String, missing: Int) throws(CollectProblem) {
    self.path = path
    headerHash = header.hashValue
    counts.missing = missing
    if let count = Files.byteCount(of: path), count > 0 { try read(header) }
    guard byteCount == 0 else { return }
    try write(Array((header + "\n").utf8)[...])
  }

  private mutating func read(_ header: String) throws(CollectProblem) {
    var (place, lines, end) = (0, 0, 0)
    var first: [UInt8] = []
    while true {
      let piece: [UInt8]
      do throws(SystemError) {
        piece = try Files.octets(of: path, from: place, limit: Self.pieceByteCount)
      } catch {
        throw .system(error)
      }
      guard !piece.isEmpty else { break }
      if place == 0 { first = Array(piece.prefix { $0 != UInt8(ascii: "\n") }) }
      for index in piece.indices where piece[index] == UInt8(ascii: "\n") {
        lines += 1
        end = place + index + 1
      }
      place += piece.count
    }
    // Nothing whole: begun anew.
    guard lines > 0 else { return }
    guard first == Array(header.utf8) else {
      throw .refused(Batch.Refusal("its file is there with other columns", .columns))
    }
    (rows, byteCount) = (lines - 1, end)
  }

  /// Appends rows; the kernel has them when it returns.
  mutating func append(_ octets: ArraySlice<UInt8>, count: Int) throws(CollectProblem) {
    try write(octets)
    rows += count
    counts.received += count
  }

  /// Opened for each: a thousand tables are no thousand descriptors.
  private mutating func write(_ octets: ArraySlice<UInt8>) throws(CollectProblem) {
    do throws(SystemError) {
      var file = try OutputFile(creating: path, ifExists: .extend(byteCount: byteCount))
      try file.append { $0 += octets }
      try file.flush()
    } catch { throw .system(error) }
    byteCount += octets.count
  }
}

/// What keeps a message from being collected, or everything.
package enum CollectProblem: Error, Hashable, Sendable, CustomStringConvertible {
  /// A message that is not to be collected.
  case refused(Batch.Refusal)
  /// A file cannot be written: nothing can be collected.
  case system(SystemError)

  package var description: String {
    switch self {
    case .refused(let why): why.description
    case .system(let error): PublishProblem.system(error).description
    }
  }
}

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
  /// The number of the row that came next when the disk had all before it: no receipt tells of more.
  private(set) var synced = 0
  /// Whether the kernel has rows, or the file itself, that a power failure may take back.
  private(set) var isUnsynced = true

  /// The number of the row that comes next.
  var next: Int { rows + counts.missing }

  /// Goes on with a file that is there, or begins one. What a kill or a power failure left of a row is cut off with the next one.
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
      var isText = true
      for index in piece.indices {
        if piece[index] == UInt8(ascii: "\n") {
          lines += 1
          end = place + index + 1
        } else if !Batch.isText(piece[index]) {
          // A power failure may leave zeros where the disk has the length of a file and not its end.
          isText = false
          break
        }
      }
      guard isText else { break }
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

  /// A sync begins that has all that the file has now.
  ///
  /// - Returns: the number of the row that comes after what it has.
  mutating func beginSync() -> Int {
    isUnsynced = false
    return next
  }

  /// The disk has all rows before this one.
  ///
  /// - Returns: whether it had fewer before.
  mutating func endSync(_ row: Int) -> Bool {
    let row = min(row, next)
    guard row > synced else { return false }
    synced = row
    return true
  }

  /// Waits until the disk has the whole file.
  mutating func sync(in folder: String) throws(CollectProblem) {
    do throws(SystemError) { _ = try Files.sync(files: [path], folders: [folder]) } catch {
      throw .system(error)
    }
    _ = endSync(beginSync())
  }

  /// Opened for each: a thousand tables are no thousand descriptors.
  private mutating func write(_ octets: ArraySlice<UInt8>) throws(CollectProblem) {
    do throws(SystemError) {
      var file = try OutputFile(creating: path, ifExists: .extend(byteCount: byteCount))
      try file.append { $0 += octets }
      try file.flush()
    } catch { throw .system(error) }
    byteCount += octets.count
    isUnsynced = true
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

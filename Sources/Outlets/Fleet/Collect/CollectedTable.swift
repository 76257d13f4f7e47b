package import BLELinux

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
  /// Rows in the file, and those that it gets with the next sync.
  private(set) var rows = 0
  /// Of the file's whole lines, and of those that it gets with the next sync.
  private var byteCount = 0
  /// Rows that the file gets with the next sync, and with the one that runs. A thread writes and syncs them in one go: a file
  /// system that notes a length before it has what is there leaves zeros after a power failure.
  private var pending: [UInt8] = []
  private var underWay: [UInt8] = []
  var counts = Counts()
  /// Rows of which at least one message told.
  var seen = 0
  /// The number of the row that came next when the disk had all before it: no receipt tells of more.
  private(set) var synced = 0
  /// Whether there are rows, or the file itself, that a power failure may take back.
  private(set) var isUnsynced = true

  /// The number of the row that comes next.
  var next: Int { rows + counts.missing }

  /// Goes on with a file that is there, or begins one. What a kill or a power failure left of a row is cut off.
  ///
  /// - Throws: `Refusal` where the file has another header.
  init(_ path: String, header: String, missing: Int) throws(CollectProblem) {
    self.path = path
    headerHash = header.hashValue
    counts.missing = missing
    if let count = Files.byteCount(of: path), count > 0 { try read(header) }
    if byteCount == 0 { write(Array((header + "\n").utf8)[...]) }
  }

  private mutating func read(_ header: String) throws(CollectProblem) {
    var (place, lines, end) = (0, 0, 0)
    var (first, length): ([UInt8], Int) = ([], 0)
    while true {
      let piece: [UInt8]
      do throws(SystemError) {
        piece = try Files.octets(of: path, from: place, limit: Self.pieceByteCount)
      } catch {
        throw .system(error)
      }
      guard !piece.isEmpty else { break }
      length = place + piece.count
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
    guard lines == 0 || first == Array(header.utf8) else {
      throw .refused(Batch.Refusal("its file is there with other columns", .columns))
    }
    if end < length {
      do throws(SystemError) { try Files.cut(path, to: end) } catch { throw .system(error) }
    }
    // Without a whole line it is begun anew.
    (rows, byteCount) = (max(0, lines - 1), end)
  }

  /// Appends rows; the file gets them with the next sync.
  mutating func append(_ octets: ArraySlice<UInt8>, count: Int) {
    write(octets)
    rows += count
    counts.received += count
  }

  private mutating func write(_ octets: ArraySlice<UInt8>) {
    pending += octets
    byteCount += octets.count
    isUnsynced = true
  }

  // MARK: The disk

  /// What no sync has written yet.
  var unwritten: CollectorSync.Write? {
    pending.isEmpty
      ? nil : CollectorSync.Write(path: path, offset: byteCount - pending.count, octets: pending)
  }

  /// A sync begins that has all rows that came until now.
  ///
  /// - Returns: the number of the row that comes after them, and what is to be written for it.
  mutating func beginSync() -> (row: Int, write: CollectorSync.Write?) {
    let write = unwritten
    isUnsynced = false
    (underWay, pending) = (pending, [])
    return (next, write)
  }

  /// The disk has all rows before this one.
  ///
  /// - Returns: whether it had fewer before.
  mutating func endSync(_ row: Int) -> Bool {
    underWay = []
    return confirm(row)
  }

  private mutating func confirm(_ row: Int) -> Bool {
    let row = min(row, next)
    guard row > synced else { return false }
    synced = row
    return true
  }

  /// Writes the rows that came since a sync began.
  func write() throws(SystemError) {
    if !pending.isEmpty { try Files.write(pending.span, to: path, at: byteCount - pending.count) }
  }

  /// Writes down by `body` that rows are missing, once the disk has all rows before them: the numbers of all that follow depend
  /// on it.
  mutating func skip(
    _ count: Int, in folder: String, _ body: () throws(CollectProblem) -> Void
  ) throws(CollectProblem) {
    // A sync that runs writes the same to the same place.
    let octets = underWay + pending
    do throws(SystemError) {
      if !octets.isEmpty { try Files.write(octets.span, to: path, at: byteCount - octets.count) }
      _ = try Files.sync(files: [path], folders: [folder])
    } catch { throw .system(error) }
    (pending, isUnsynced) = ([], false)
    counts.missing += count
    try body()
    _ = confirm(next)
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

package import BLELinux

/// The file of a collected table, with counts of its rows, duplicates and missing rows.
///
/// `collect.json` stores the number of missing rows, because the number of the next row is the sum of the
/// rows in the file and the missing rows.
struct CollectedTable {
  struct Counts: Hashable, Sendable {
    /// Number of rows written by this run.
    var received = 0
    /// Number of rows that were received again and dropped.
    var duplicated = 0
    /// Number of rows that will never arrive.
    var missing = 0
    /// Number of requests to the publisher to resend missing rows.
    var requests = 0
  }

  private static let pieceByteCount = 1 << 16

  let path: String
  /// Hash of the header. The hash is valid only within one run, because each process has its own hash seed.
  /// The seed prevents a peer from constructing a collision.
  let headerHash: Int
  /// Number of rows in the file, including rows that the next sync writes.
  private(set) var rows = 0
  /// Size of the file's complete lines in bytes, including lines that the next sync writes.
  private var byteCount = 0
  /// Rows for the next sync. One thread writes and syncs the rows together: if a file system stores the new
  /// length before the data, a power failure leaves zeros.
  private var pending: [UInt8] = []
  /// Rows of the sync in progress.
  private var underWay: [UInt8] = []
  var counts = Counts()
  /// Number of rows that received messages have announced.
  var seen = 0
  /// Number of the first row that has not been synced. Receipts confirm only earlier rows.
  private(set) var synced = 0
  /// Whether a power failure could lose rows or the file itself.
  private(set) var isUnsynced = true

  /// Number of the next row.
  var next: Int { rows + counts.missing }

  /// Opens a file, and creates the file if it is missing. Removes an incomplete last row, which remains after
  /// a kill or a power failure.
  ///
  /// - Throws: `Refusal` if the file has a different header.
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
          // After a power failure, a file may have its new length, but zeros instead of its data.
          isText = false
          break
        }
      }
      guard isText else { break }
      place += piece.count
    }
    guard lines == 0 || first == Array(header.utf8) else {
      throw .refused(Batch.Refusal("its file exists with other columns", .columns))
    }
    if end < length {
      do throws(SystemError) { try Files.cut(path, to: end) } catch { throw .system(error) }
    }
    // A file without a complete line is written from its start.
    (rows, byteCount) = (max(0, lines - 1), end)
  }

  /// Appends rows, which the next sync writes to the file.
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

  /// The rows that no sync has written yet, with their offset in the file.
  var unwritten: CollectorSync.Write? {
    pending.isEmpty
      ? nil : CollectorSync.Write(path: path, offset: byteCount - pending.count, octets: pending)
  }

  /// Starts a sync of all rows received so far.
  ///
  /// - Returns: the number of the row after the last row of the sync, and the data to write.
  mutating func beginSync() -> (row: Int, write: CollectorSync.Write?) {
    let write = unwritten
    isUnsynced = false
    (underWay, pending) = (pending, [])
    return (next, write)
  }

  /// Ends a sync. All rows before `row` are now on the disk.
  ///
  /// - Returns: whether the sync has confirmed further rows.
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

  /// Writes the rows received since the last sync started.
  func write() throws(SystemError) {
    if !pending.isEmpty { try Files.write(pending.span, to: path, at: byteCount - pending.count) }
  }

  /// Calls `body` to store the number of missing rows. First syncs all earlier rows, because the numbers of
  /// all later rows depend on the number of missing rows.
  mutating func skip(
    _ count: Int, in folder: String, _ body: () throws(CollectProblem) -> Void
  ) throws(CollectProblem) {
    // The sync in progress, if any, writes the same bytes to the same offset.
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

/// An error that concerns one message, or all collecting.
package enum CollectProblem: Error, Hashable, Sendable, CustomStringConvertible {
  /// The message is rejected.
  case refused(Batch.Refusal)
  /// A file cannot be written, so nothing can be collected.
  case system(SystemError)

  package var description: String {
    switch self {
    case .refused(let why): why.description
    case .system(let error): PublishProblem.system(error).description
    }
  }
}

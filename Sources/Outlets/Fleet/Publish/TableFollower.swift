import BLELinux
import BLEWire

/// Reads a table's file, which may still be growing. Tracks the rows that were sent, and the rows that the
/// broker has acknowledged.
///
/// Only complete lines are read, and no part of the file is kept in memory.
struct TableFollower {
  /// A position between two rows.
  struct Position: Hashable, Sendable {
    /// Number of the row that starts at this position.
    var row: Int
    /// Offset in the file, in bytes.
    var octet: Int
  }

  /// Rows read from a table for one batch.
  struct Cut: Hashable, Sendable {
    var row: Int
    var count: Int
    var rows: [UInt8]
    /// Position after the rows.
    var end: Position
    /// The follower's generation when the rows were read. Acknowledgements of an older generation are
    /// ignored.
    var generation: Int
  }

  private static let pieceByteCount = 1 << 16
  /// Maximum number of batch ends kept in memory. A receipt can move the cursor to the end of a batch.
  private static let unconfirmedLimit = Limit(
    1_024, "unconfirmed places of a published table", by: .broker,
    whenFull: "every other one is dropped: a later run resends more rows",
    counted: "`duplicated` of `collect`")
  /// Maximum number of bytes read per check to count waiting rows.
  private static let countedByteCount = 1 << 22

  let name: String
  let header: String
  let path: String
  private let start: Position
  private(set) var acknowledged: Position
  /// The confirmed position, from which a later run starts.
  private(set) var confirmed: Position
  /// Number of rows that the latest receipt has confirmed.
  private var told: Int
  /// Ends of batches that the broker has acknowledged but no receipt has confirmed.
  private var unconfirmed: [Position] = []
  private(set) var sent: Position
  /// Number of the first row that can still be sent.
  private(set) var from: Int
  private(set) var skipped: Int
  private(set) var generation = 0
  /// Size of the file in bytes at the last check.
  private var byteCount: Int
  /// Position up to which unsent rows have been counted.
  private var counted: Position
  /// Batches that were sent but not acknowledged yet, in order.
  private var waiting: [(end: Position, isAcknowledged: Bool)] = []

  /// Opens a table.
  ///
  /// - Parameter cursor: progress of an earlier run; `nil` for the first run.
  /// - Returns: `nil` if the file has no complete header yet.
  init?(
    _ name: String, in directory: String, _ cursor: PublishCursor.Table?
  ) throws(PublishProblem) {
    self.name = name
    path = directory + "/" + name + ".csv"
    let piece = try Self.octets(path, 0, Batch.headerByteCountLimit + 1)
    guard let end = piece.firstIndex(of: UInt8(ascii: "\n")) else {
      guard piece.count <= Batch.headerByteCountLimit else { throw .noTable(path) }
      return nil
    }
    header = String(decoding: piece[..<end], as: UTF8.self)
    guard Batch.isHeader(header) else { throw .noTable(path) }
    start = Position(row: 0, octet: end + 1)
    acknowledged = cursor.map { Position(row: $0.rows, octet: $0.octets) } ?? start
    (from, skipped) = (cursor?.from ?? 0, cursor?.skipped ?? 0)
    (sent, confirmed, counted, told) = (acknowledged, acknowledged, acknowledged, acknowledged.row)
    byteCount = sent.octet
    // Check that the cursor points between two lines of this file.
    let isPlace =
      acknowledged.octet >= start.octet
      ? try Self.octets(path, acknowledged.octet - 1, 1) == [UInt8(ascii: "\n")] : false
    if !isPlace { try stepBack() }
    try look()
  }

  /// Moves back to the end of the file. After a power failure, the file may have fewer rows than a collector
  /// has confirmed, because rows may be published before the capture syncs them.
  ///
  /// - Throws: `otherCapture` if the file has enough rows, but the cursor does not point between two rows.
  private mutating func stepBack() throws(PublishProblem) {
    var (end, place) = (start, start.octet)
    while true {
      let whole = try Self.octets(path, place, Self.pieceByteCount)
      let piece = Self.written(whole)
      for index in piece.indices where piece[index] == UInt8(ascii: "\n") {
        end = Position(row: end.row + 1, octet: place + index + 1)
      }
      place += piece.count
      guard !piece.isEmpty, piece.count == whole.count else { break }
    }
    guard end.row < acknowledged.row else { throw .otherCapture(path) }
    (acknowledged, sent, confirmed, counted) = (end, end, end, end)
    byteCount = end.octet
    from = min(from, end.row)
    skipped = min(skipped, from)
  }

  /// Returns the bytes before the first zero. After a power failure, a file may have its new length, but
  /// zeros instead of its data.
  private static func written(_ octets: [UInt8]) -> ArraySlice<UInt8> { octets.prefix { $0 != 0 } }

  var cursor: PublishCursor.Table {
    PublishCursor.Table(rows: confirmed.row, octets: confirmed.octet, skipped: skipped, from: from)
  }

  /// Whether the broker has acknowledged all known complete lines.
  var isDrained: Bool { waiting.isEmpty && sent == acknowledged }

  /// Number of bytes that the broker has not acknowledged.
  var waitingByteCount: Int { byteCount - acknowledged.octet }

  /// Number of counted rows that no collector has confirmed.
  var unconfirmedRows: Int { max(sent.row, counted.row) - confirmed.row }

  /// Reads the file's size, and counts new rows.
  ///
  /// - Throws: `otherCapture` if the file is shorter than the part that was already sent.
  mutating func look() throws(PublishProblem) {
    guard let count = Files.byteCount(of: path), count >= sent.octet else { throw .otherCapture(path) }
    if counted.octet < sent.octet { counted = sent }
    // Count only rows that already waited at the last check. Newer rows are counted when they are sent.
    let end = min(byteCount, counted.octet + Self.countedByteCount)
    if counted.octet < end { counted = try advance(from: counted, to: end) { _ in false } }
    byteCount = count
  }

  /// Returns as many rows as fit into a batch.
  ///
  /// - Returns: `nil` if no complete line is waiting.
  mutating func next() throws(PublishProblem) -> Cut? {
    let limit = min(byteCount - sent.octet, Batch.byteCountLimit)
    guard limit > 0 else { return nil }
    let whole = try Self.octets(path, sent.octet, limit)
    let piece = Self.written(whole)
    guard let last = piece.lastIndex(of: UInt8(ascii: "\n")) else {
      guard piece.count < Batch.byteCountLimit else { throw .noTable(path) }
      return nil
    }
    let rows = Array(piece[...last])
    let count = rows.count { $0 == UInt8(ascii: "\n") }
    let first = sent.row
    sent = Position(row: first + count, octet: sent.octet + rows.count)
    waiting.append((sent, false))
    return Cut(row: first, count: count, rows: rows, end: sent, generation: generation)
  }

  /// Handles the broker's acknowledgement of a batch.
  mutating func acknowledge(_ end: Position, _ generation: Int) {
    guard generation == self.generation, let place = waiting.firstIndex(where: { $0.end == end }) else {
      return
    }
    waiting[place].isAcknowledged = true
    while let first = waiting.first, first.isAcknowledged {
      acknowledged = first.end
      waiting.removeFirst()
      if unconfirmed.count >= Self.unconfirmedLimit.count {
        unconfirmed = unconfirmed.indices.filter { !$0.isMultiple(of: 2) }.map { unconfirmed[$0] }
      }
      unconfirmed.append(acknowledged)
    }
    settle()
  }

  /// Handles a receipt: a collector has this number of rows in files.
  mutating func confirm(_ rows: Int) {
    told = max(told, rows)
    settle()
  }

  private mutating func settle() {
    let count = unconfirmed.firstIndex { $0.row > told } ?? unconfirmed.count
    guard count > 0 else { return }
    confirmed = unconfirmed[count - 1]
    unconfirmed.removeSubrange(..<count)
  }

  /// Moves back to the first row that the broker has not acknowledged.
  mutating func takeBack() {
    sent = acknowledged
    waiting = []
    generation += 1
  }

  /// Moves back to an earlier row, or to the first row that was not skipped.
  ///
  /// - Returns: whether there are rows to resend.
  mutating func rewind(to row: Int) throws(PublishProblem) -> Bool {
    let target = max(row, from)
    guard target < sent.row else { return false }
    takeBack()
    guard target < acknowledged.row else { return true }
    acknowledged = try advance(from: start) { $0.row >= target }
    sent = acknowledged
    if target < confirmed.row { confirmed = acknowledged }
    unconfirmed.removeAll { $0.row > target }
    told = target
    return true
  }

  /// Skips the oldest rows if more than `limit` bytes are waiting. Reduces the waiting bytes to three
  /// quarters of the limit, so that skipping is rare.
  mutating func bound(byteCount limit: Int) throws(PublishProblem) {
    guard waitingByteCount > limit else { return }
    takeBack()
    let target = byteCount - limit / 4 * 3
    let before = acknowledged.row
    acknowledged = try advance(from: acknowledged) { $0.octet >= target }
    // Skipped rows can no longer be confirmed.
    (sent, confirmed, unconfirmed) = (acknowledged, acknowledged, [])
    told = max(told, acknowledged.row)
    from = acknowledged.row
    skipped += acknowledged.row - before
  }

  // MARK: The file

  private func advance(
    from begin: Position, to end: Int = .max, until isThere: (Position) -> Bool
  ) throws(PublishProblem) -> Position {
    var (position, place) = (begin, begin.octet)
    while !isThere(position), place < end {
      let piece = try Self.octets(path, place, min(end - place, Self.pieceByteCount))
      guard !piece.isEmpty else { return position }
      for index in piece.indices where piece[index] == UInt8(ascii: "\n") {
        position = Position(row: position.row + 1, octet: place + index + 1)
        if isThere(position) { return position }
      }
      place += piece.count
    }
    return position
  }

  private static func octets(_ path: String, _ offset: Int, _ limit: Int) throws(PublishProblem) -> [UInt8] {
    do throws(SystemError) { return try Files.octets(of: path, from: offset, limit: limit) } catch {
      throw .system(error)
    }
  }
}

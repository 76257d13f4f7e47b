import BLELinux
import BLEWire

/// One table's file, which may still grow: what of it was sent, and what the broker has.
///
/// Only whole lines are looked at. Nothing of the file is kept in memory.
struct TableFollower {
  /// Between two rows.
  struct Position: Hashable, Sendable {
    /// Number of the row that begins here.
    var row: Int
    /// Octets of the file before it.
    var octet: Int
  }

  /// Rows that were cut from a table.
  struct Cut: Hashable, Sendable {
    var row: Int
    var count: Int
    var rows: [UInt8]
    /// Where the table goes on.
    var end: Position
    /// Of the follower when it cut them: an answer to what was cut before a rewind is none any more.
    var generation: Int
  }

  private static let pieceByteCount = 1 << 16
  /// Ends of batches, which is where a receipt can move the cursor to.
  private static let unconfirmedLimit = Limit(
    1_024, "places of a published table up to which no collector has confirmed", by: .broker,
    whenFull: "every other one is forgotten: a later run sends more rows again",
    counted: "`duplicated` of `collect`")
  /// Rows that wait are counted as long as a look may take.
  private static let countedByteCount = 1 << 22

  let name: String
  let header: String
  let path: String
  private let start: Position
  private(set) var acknowledged: Position
  /// What a collector has in files, as far as is known: where a later run begins.
  private(set) var confirmed: Position
  /// Rows that a receipt told of.
  private var told: Int
  /// Where acknowledged batches end of which no receipt has told.
  private var unconfirmed: [Position] = []
  private(set) var sent: Position
  /// The first row that can still be sent.
  private(set) var from: Int
  private(set) var skipped: Int
  private(set) var generation = 0
  /// Of the file, when it was looked at.
  private var byteCount: Int
  /// Up to where rows that are not sent are counted.
  private var counted: Position
  /// What is sent and not acknowledged, in order.
  private var waiting: [(end: Position, isAcknowledged: Bool)] = []

  /// - Parameter cursor: how far an earlier run came.
  /// - Returns: `nil` where not even the header is there yet.
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
    // The cursor's place is one between two lines of this very file.
    let isPlace =
      acknowledged.octet >= start.octet
      ? try Self.octets(path, acknowledged.octet - 1, 1) == [UInt8(ascii: "\n")] : false
    if !isPlace { try stepBack() }
    try look()
  }

  /// Goes back to the end of a file that a power failure has left with fewer rows than a collector has confirmed: they may be
  /// published before the disk of the capture has them.
  ///
  /// - Throws: `otherCapture` if it has as many rows, and the cursor's place is none.
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

  /// The octets before the first zero: zeros are what a power failure leaves where the disk has the length of a file and not its
  /// end.
  private static func written(_ octets: [UInt8]) -> ArraySlice<UInt8> { octets.prefix { $0 != 0 } }

  var cursor: PublishCursor.Table {
    PublishCursor.Table(rows: confirmed.row, octets: confirmed.octet, skipped: skipped, from: from)
  }

  /// Whether everything that was seen of the file is acknowledged, but for a line without an end.
  var isDrained: Bool { waiting.isEmpty && sent == acknowledged }

  /// Octets that the broker has not acknowledged.
  var waitingByteCount: Int { byteCount - acknowledged.octet }

  /// Rows of the file, as far as they are counted, that no collector has confirmed.
  var unconfirmedRows: Int { max(sent.row, counted.row) - confirmed.row }

  /// Sees how far the file has grown.
  ///
  /// - Throws: `otherCapture` where it is shorter than what was sent of it.
  mutating func look() throws(PublishProblem) {
    guard let count = Files.byteCount(of: path), count >= sent.octet else { throw .otherCapture(path) }
    if counted.octet < sent.octet { counted = sent }
    // What was there at the last look and still waits; what comes and leaves is counted as it leaves.
    let end = min(byteCount, counted.octet + Self.countedByteCount)
    if counted.octet < end { counted = try advance(from: counted, to: end) { _ in false } }
    byteCount = count
  }

  /// The next rows, as many as fit.
  ///
  /// - Returns: `nil` where no whole line waits.
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

  /// The broker has rows that were cut.
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

  /// A collector has so many rows in files.
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

  /// What was sent and not acknowledged is sent again.
  mutating func takeBack() {
    sent = acknowledged
    waiting = []
    generation += 1
  }

  /// Goes on from an earlier row, or the first one that is not skipped.
  ///
  /// - Returns: whether there is anything to send again.
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

  /// Leaves out the oldest rows where more than so many octets wait, and some more, so that it need not be done for each.
  mutating func bound(byteCount limit: Int) throws(PublishProblem) {
    guard waitingByteCount > limit else { return }
    takeBack()
    let target = byteCount - limit / 4 * 3
    let before = acknowledged.row
    acknowledged = try advance(from: acknowledged) { $0.octet >= target }
    // What was skipped nobody can confirm.
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

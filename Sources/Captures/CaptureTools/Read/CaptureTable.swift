package import BLELinux
import BLEWire
import ColmiRing
import JSONText
package import Recording
package import SensorSessions

/// Reader of a table of raw samples, row by row. Memory use does not depend on the size of the file.
///
/// An invalid row is skipped and reported in `problem`. A damaged file ends at the damage; the rows before it
/// are valid.
package protocol SampleTable: AnyObject {
  var stream: RingStream { get }
  /// Number of rows read so far.
  var rows: Int { get }
  var problem: String? { get }
  /// Current row; `nil` at the end.
  var next: RingRawReading? { get }
  /// Advances to the next row.
  func advance()
}

/// Table of raw samples stored as text.
package final class CaptureTable: SampleTable {
  package let stream: RingStream
  package private(set) var rows = 0
  package var problem: String? { damage.problem }
  package private(set) var next: RingRawReading?

  /// Maximum length of a line in bytes: twice the longest line that a recorder writes.
  private static let maximumLine = 256
  /// Valid timestamps, up to the year 2096. The difference of two valid timestamps cannot overflow.
  package static let times: ClosedRange<Int64> = 0...4_000_000_000_000_000_000

  private var lines: TableLines
  private var damage = TableDamage()

  /// Opens the stream's table in `directory`, compressed or not, and reads its first row.
  package init(_ stream: RingStream, in directory: String) throws(SystemError) {
    self.stream = stream
    lines = try TableLines(path: directory + "/" + stream.fileName, limit: Self.maximumLine)
    guard readLine() else {
      damage.end("\(stream.fileName): empty")
      return
    }
    guard lines.line.elementsEqual(stream.header.utf8.dropLast()) else {
      damage.end("\(stream.fileName): the first line is not the header of a capture's table")
      return
    }
    advance()
  }

  package func advance() {
    next = nil
    while next == nil, !damage.hasEnded, readLine() {
      next = row()
      if next == nil { damage.leaveOut(here("it makes no sense")) }
    }
    if next != nil { rows += 1 }
  }

  private func readLine() -> Bool {
    do throws(TableLines.Fault) { return try lines.next() } catch {
      damage.end("\(here("\(error)")); the \(counted(rows, "row before it is", "rows before it are")) good")
      return false
    }
  }

  private func here(_ why: String) -> String { "\(stream.fileName), line \(lines.number): \(why)" }

  // MARK: Columns

  private func row() -> RingRawReading? {
    var place = 0
    guard let time = number(&place, Self.times) else { return nil }
    let stamp = ReceiveTime(nanoseconds: time)
    switch stream {
    case .accelerometer:
      guard let x = number(&place, -2048...2047), let y = number(&place, -2048...2047),
        let z = number(&place, -2048...2047)
      else { return nil }
      return RingRawReading(
        time: stamp, sample: .accelerometer(AccelerometerSample(x: Int16(x), y: Int16(y), z: Int16(z))))
    case .ppg:
      guard let c = counts(&place) else { return nil }
      return RingRawReading(
        time: stamp, sample: .ppg(PPGRawSample(value: c[0], max: c[1], min: c[2], diff: c[3])))
    case .spO2:
      guard let c = counts(&place) else { return nil }
      return RingRawReading(
        time: stamp, sample: .spO2(SpO2RawSample(value: c[0], max: c[1], min: c[2], diff: c[3])))
    }
  }

  /// Parses four counts. The first count is 0 for a dropout, which is an empty cell.
  private func counts(_ place: inout Int) -> InlineArray<4, UInt16>? {
    var counts: InlineArray<4, UInt16> = [0, 0, 0, 0]
    let isDropout = place < lines.line.count && lines.line[place] == UInt8(ascii: ",")
    if isDropout { place += 1 }
    for index in counts.indices where index > 0 || !isDropout {
      guard let number = number(&place, 0...0xFFFF) else { return nil }
      counts[index] = UInt16(number)
    }
    return place > lines.line.count ? counts : nil
  }

  /// Parses the integer in the column at `place`, and advances `place` past the following comma or the end of
  /// the line.
  private func number(_ place: inout Int, _ range: ClosedRange<Int64>) -> Int64? {
    let line = lines.line
    var magnitude: Int64 = 0
    var digits = 0
    let isNegative = place < line.count && line[place] == UInt8(ascii: "-")
    if isNegative { place += 1 }
    while place < line.count, line[place] != UInt8(ascii: ",") {
      let digit = Int64(line[place]) - 0x30
      guard (0...9).contains(digit), digits < 19 else { return nil }
      let (shifted, isTooLarge) = magnitude.multipliedReportingOverflow(by: 10)
      let (sum, isStillTooLarge) = shifted.addingReportingOverflow(digit)
      guard !isTooLarge, !isStillTooLarge else { return nil }
      magnitude = sum
      digits += 1
      place += 1
    }
    place += 1
    let number = isNegative ? -magnitude : magnitude
    return digits > 0 && range.contains(number) ? number : nil
  }
}

/// Table of raw samples stored as arrays.
package final class CaptureArrays: SampleTable {
  package let stream: RingStream
  package private(set) var next: RingRawReading?
  private let reader: ArrayTableReader
  private var badTime: String?

  package var rows: Int { badTime == nil ? reader.rows : reader.rows - 1 }
  package var problem: String? { badTime ?? reader.problem }

  /// Opens the stream's arrays in `directory`, and reads the first row.
  package init(_ stream: RingStream, in directory: String) throws(SystemError) {
    self.stream = stream
    reader = try ArrayTableReader(stream.table, in: directory)
    advance()
  }

  package func advance() {
    next = nil
    guard problem == nil, reader.next() else { return }
    let time = Int64(bitPattern: reader.words[0])
    guard CaptureTable.times.contains(time) else {
      badTime =
        "\(stream.name): row \(reader.rows) has no time; the \(counted(reader.rows - 1, "row before is", "rows before are")) good"
      return
    }
    next = RingRawReading(
      time: ReceiveTime(nanoseconds: time),
      sample: RingRawSample(stream, reader.words, of: reader.table.columns))
  }
}

extension RingRawSample {
  /// Creates a sample from the cells of a row. A missing reading becomes 0, as in the ring's frames.
  fileprivate init(_ stream: RingStream, _ words: [UInt64], of columns: [RecordedColumn]) {
    func count(_ place: Int) -> UInt16 {
      UInt16(exactly: TableCell.number(words[place], columns[place].kind) ?? 0) ?? 0
    }
    func axis(_ place: Int) -> Int16 { Int16(truncatingIfNeeded: words[place]) }
    self =
      switch stream {
      case .accelerometer: .accelerometer(AccelerometerSample(x: axis(1), y: axis(2), z: axis(3)))
      case .ppg: .ppg(PPGRawSample(value: count(1), max: count(2), min: count(3), diff: count(4)))
      case .spO2: .spO2(SpO2RawSample(value: count(1), max: count(2), min: count(3), diff: count(4)))
      }
  }
}

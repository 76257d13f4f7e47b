import BLECore
import BLESensors
import BLESystem

/// A table of raw samples, read row by row. Memory does not grow with the file.
///
/// A row that makes no sense ends it: `problem` says which, and the rows before are good.
protocol SampleTable: AnyObject {
  var stream: RingStream { get }
  /// Rows read so far.
  var rows: Int { get }
  var problem: String? { get }
  /// The row to take next; `nil` at the end.
  var next: StampedSample? { get }
  /// Goes on to the next row.
  func advance()
}

/// One of text.
final class CaptureTable: SampleTable {
  let stream: RingStream
  private(set) var rows = 0
  private(set) var problem: String?
  private(set) var next: StampedSample?

  /// Octets of a line, at most: twice the longest that a recorder writes.
  private static let maximumLine = 256
  /// Stamps beyond the year 2096 are not stamps; and differences of those below cannot overflow.
  static let times: ClosedRange<Int64> = 0...4_000_000_000_000_000_000

  private var input: CompressedInput
  private var piece: [UInt8] = []
  private var taken = 0
  private var line: [UInt8] = []
  private var lineNumber = 0

  /// Opens the stream's table in `directory`, also one that was compressed afterwards, and reads its first row.
  init(_ stream: RingStream, in directory: String) throws(SystemError) {
    self.stream = stream
    input = try CompressedInput(path: directory + "/" + stream.fileName)
    line.reserveCapacity(Self.maximumLine)
    guard readLine() else {
      if problem == nil { problem = "\(stream.fileName): empty" }
      return
    }
    guard line.elementsEqual(stream.header.utf8.dropLast()) else {
      problem = "\(stream.fileName): the first line is not the header of a capture's table"
      return
    }
    advance()
  }

  func advance() {
    next = nil
    guard problem == nil, readLine() else { return }
    guard let sample = row() else { return end("line \(lineNumber) makes no sense") }
    rows += 1
    next = sample
  }

  private func end(_ reason: String) {
    problem = "\(stream.fileName): \(reason); the \(rows) rows before are good"
  }

  // MARK: Lines

  /// Reads a line into `line`, without its end; `false` at the end of the file or where it breaks off.
  private func readLine() -> Bool {
    line.removeAll(keepingCapacity: true)
    while true {
      if taken == piece.count, !fill() {
        if !line.isEmpty, problem == nil { end("the last line is cut off") }
        return false
      }
      let octet = piece[taken]
      taken += 1
      if octet == UInt8(ascii: "\n") { break }
      guard line.count < Self.maximumLine else {
        lineNumber += 1
        end("line \(lineNumber) is too long")
        return false
      }
      line.append(octet)
    }
    lineNumber += 1
    if line.last == UInt8(ascii: "\r") { line.removeLast() }
    return true
  }

  private func fill() -> Bool {
    do throws(CompressedInput.Problem) {
      piece = try input.next()
    } catch {
      piece = []
      end("\(error)")
    }
    taken = 0
    return !piece.isEmpty
  }

  // MARK: Columns

  private func row() -> StampedSample? {
    var place = 0
    guard let time = number(&place, Self.times) else { return nil }
    let stamp = ReceiveTime(nanoseconds: time)
    switch stream {
    case .accelerometer:
      guard let x = number(&place, -2048...2047), let y = number(&place, -2048...2047),
        let z = number(&place, -2048...2047)
      else { return nil }
      return StampedSample(
        time: stamp, sample: .accelerometer(AccelerometerSample(x: Int16(x), y: Int16(y), z: Int16(z))))
    case .ppg:
      guard let c = counts(&place) else { return nil }
      return StampedSample(
        time: stamp, sample: .ppg(PPGRawSample(value: c[0], max: c[1], min: c[2], diff: c[3])))
    case .spO2:
      guard let c = counts(&place) else { return nil }
      return StampedSample(
        time: stamp, sample: .spO2(SpO2RawSample(value: c[0], max: c[1], min: c[2], diff: c[3])))
    }
  }

  private func counts(_ place: inout Int) -> InlineArray<4, UInt16>? {
    var counts: InlineArray<4, UInt16> = [0, 0, 0, 0]
    for index in counts.indices {
      guard let number = number(&place, 0...0xFFFF) else { return nil }
      counts[index] = UInt16(number)
    }
    return place > line.count ? counts : nil
  }

  /// The whole number in the column at `place`, and goes on behind its comma or the line's end.
  private func number(_ place: inout Int, _ range: ClosedRange<Int64>) -> Int64? {
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

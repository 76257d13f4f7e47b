package import BLELinux
import BLEWire
import ColmiRing
package import Recording
package import SensorSessions

/// A table of raw samples stored as arrays.
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
      badTime = "\(stream.name): row \(reader.rows) has no time; the \(reader.rows - 1) rows before are good"
      return
    }
    next = RingRawReading(
      time: ReceiveTime(nanoseconds: time),
      sample: RingRawSample(stream, reader.words, of: reader.table.columns))
  }
}

extension RingRawSample {
  /// Creates a sample from the words of a row. A missing reading becomes 0, as in the ring's frames.
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

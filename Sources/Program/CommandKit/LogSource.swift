import BLELinux
package import BLEPacketLog
package import BLEWire
import Recording

/// A packet log that is read in chunks and decompressed if necessary.
///
/// `next` returns its records in order. An error ends the records early and is reported by `failure`.
package final class LogSource {
  package let path: String
  /// Why the records ended before the end of the file.
  package private(set) var failure: String?

  /// Bytes read so far, after decompression.
  package private(set) var byteCount = 0
  package var recordCount: Int { reader.recordCount }
  package var isCompressed: Bool { input.isCompressed }

  private var input: CompressedInput
  private var reader: AnyLogReader
  /// The records of the current chunk; those before `first` have been returned.
  private var records: [StoredPacketRecord] = []
  private var first = 0
  private var isAtEnd = false

  /// - Parameters:
  ///   - path: `-` for standard input.
  ///   - keys: for encrypted links in an air log.
  package init(path: String, keys: [AirKey] = []) throws {
    self.path = path
    reader = AnyLogReader(keys: keys)
    do throws(SystemError) { input = try CompressedInput(path: path) } catch {
      throw Failure("\(LogProblem.name(path)): \(LogProblem.text(error))")
    }
    fill()
  }

  /// Whether the log has adapters and notes, as far as it has been read.
  package var isMonitorLog: Bool { reader.hasMonitorRecords || reader.format == .btsnoop(.monitor) }

  package var nextTime: ReceiveTime? { first < records.count ? records[first].header.time : nil }

  package func next() -> StoredPacketRecord? {
    guard first < records.count else { return nil }
    defer {
      first += 1
      if first == records.count { fill() }
    }
    return records[first]
  }

  /// A note for the user about a log that was read to its end without an error, and whether none of it was
  /// read.
  package func remark() -> (text: String, isFailure: Bool)? {
    guard failure == nil, let text = reader.remark ?? reader.airReport()?.remark else { return nil }
    return ("\(LogProblem.name(path)): \(text)", reader.isForeign)
  }

  /// The message for standard error.
  package var failureMessage: String? {
    failure.map { "\(LogProblem.name(path)): \($0)" }
  }

  /// Reads until a record is complete or the log ends.
  private func fill() {
    records.removeAll(keepingCapacity: true)
    first = 0
    while records.isEmpty, !isAtEnd {
      do throws(CompressedInput.Problem) {
        let piece = try input.next()
        byteCount += piece.count
        take(piece)
      } catch {
        end("\(error)\(LogProblem.good(reader.recordCount))")
      }
    }
  }

  private func take(_ piece: [UInt8]) {
    do throws(WireError) {
      if piece.isEmpty {
        isAtEnd = true
        try reader.finish { records.append(StoredPacketRecord(copying: $0)) }
      } else {
        try reader.read(piece.span) { records.append(StoredPacketRecord(copying: $0)) }
      }
    } catch {
      end(LogProblem.text(error, reader.format, reader.foreignFile, records: reader.recordCount))
    }
  }

  private func end(_ reason: String) {
    isAtEnd = true
    failure = reason
  }
}

/// Assigns adapter numbers in merged logs, so that the links of each log stay separate: an adapter number
/// that another log already uses is replaced with the first free one.
package struct AdapterNumbers {
  private struct Adapter: Hashable {
    var log: Int
    var number: UInt16
  }

  private var numbers: [Adapter: UInt16] = [:]
  private var taken: Set<UInt16> = []

  package init() {}

  /// The monitor's 0xFFFF means no adapter and is kept.
  package mutating func number(of adapter: UInt16, inLog log: Int) -> UInt16 {
    if adapter == 0xFFFF { return adapter }
    let key = Adapter(log: log, number: adapter)
    if let known = numbers[key] { return known }
    let number = taken.contains(adapter) ? (0..<0xFFFF).first { !taken.contains($0) } ?? adapter : adapter
    taken.insert(number)
    numbers[key] = number
    return number
  }
}

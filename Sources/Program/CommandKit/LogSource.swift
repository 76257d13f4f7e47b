import BLELinux
package import BLEPacketLog
package import BLEWire
import Recording

/// A packet log that is read piece by piece, decompressed where it must be.
///
/// `next` gives its records in order; a problem ends them early and is told by `failure`.
package final class LogSource {
  package let path: String
  /// Why the records end before the file does.
  package private(set) var failure: String?

  /// Octets read so far, decompressed.
  package private(set) var byteCount = 0
  package var recordCount: Int { reader.recordCount }
  package var isCompressed: Bool { input.isCompressed }

  private var input: CompressedInput
  private var reader: AnyLogReader
  /// The records of a piece; those before `first` were taken.
  private var records: [StoredPacketRecord] = []
  private var first = 0
  private var isAtEnd = false

  /// - Parameters:
  ///   - path: `-` for standard input.
  ///   - keys: of links of the air.
  package init(path: String, keys: [AirKey] = []) throws {
    self.path = path
    reader = AnyLogReader(keys: keys)
    do throws(SystemError) { input = try CompressedInput(path: path) } catch {
      throw Failure("\(LogProblem.name(path)): \(LogProblem.text(error))")
    }
    fill()
  }

  /// Whether adapters and notes are known, as far as it was read.
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

  /// What a person should know of a log that was read to its end, although nothing failed; and whether none of it was read.
  package func remark() -> (text: String, isFailure: Bool)? {
    guard failure == nil, let text = reader.remark ?? reader.airReport()?.remark else { return nil }
    return ("\(LogProblem.name(path)): \(text)", reader.isForeign)
  }

  /// What a person reads on standard error.
  package var failureMessage: String? {
    failure.map { "\(LogProblem.name(path)): \($0)" }
  }

  /// Reads on until a record is complete or the log ends.
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

/// Tells the adapters of merged logs apart, so that the links of each stay its own: an adapter that another log
/// has as well gets the first number that is free.
package struct AdapterNumbers {
  private struct Adapter: Hashable {
    var log: Int
    var number: UInt16
  }

  private var numbers: [Adapter: UInt16] = [:]
  private var taken: Set<UInt16> = []

  package init() {}

  /// The monitor's 0xFFFF is of no adapter and stays.
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

import BLEDissector
import BLELinux
import BLEPacketLog
import BLEWire
import Recording

/// Reads a packet log of any format from its first record to its last.
enum LogFile {
  /// Calls `body` with each record, in the order and with the times of `LogTimeline`. For a log from the air
  /// these are the packets that a host would have seen.
  ///
  /// - Parameter keys: keys of encrypted links in a log from the air.
  /// - Returns: the reason if the records end before the file does, else `nil`; and the findings about the
  ///   log's clock.
  /// - Throws: if the file cannot be opened or is not a packet log.
  static func read(
    _ path: String, keys: [AirKey] = [], progress: (String) -> Void, _ body: (borrowing PacketRecord) -> Void
  ) throws(ReportError) -> (problem: String?, timeline: LogTimeline) {
    let name = LogProblem.name(path)
    var input: CompressedInput
    do throws(SystemError) { input = try CompressedInput(path: path) } catch {
      throw .unreadable("\(name): \(LogProblem.text(error))")
    }
    var reader = AnyLogReader(keys: keys)
    var timeline = LogTimeline()
    do {
      while !Task.isCancelled {
        let piece = try input.next()
        if piece.isEmpty { break }
        try reader.read(piece.span) { timeline.take($0) { body($0) } }
        progress("\(reader.recordCount) packets")
      }
      try reader.finish { timeline.take($0) { body($0) } }
    } catch let error as WireError {
      timeline.finish { body($0) }
      let problem = LogProblem.text(error, reader.format, reader.foreignFile, records: reader.recordCount)
      guard reader.format != nil else { throw .unreadable("\(name): \(problem)") }
      return ("\(name): \(problem)", timeline)
    } catch {
      timeline.finish { body($0) }
      guard reader.recordCount > 0 else { throw .unreadable("\(name): \(error)") }
      return ("\(name): \(error)\(LogProblem.good(reader.recordCount))", timeline)
    }
    timeline.finish { body($0) }
    if Task.isCancelled { throw .interrupted }
    return (nil, timeline)
  }
}

extension LogDevice {
  init(_ connection: ConnectionReport) { self.init(connection.adapter, connection.handle, connection.peer) }
}

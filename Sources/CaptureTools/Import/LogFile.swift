import BLEAirLog
import BLECore
import BLEDissector
import BLELinux
import BLEPacketLog
import CompressedFiles
import PacketStatistics
import Recording

/// A packet log of any format, read from its first record to its last.
enum LogFile {
  /// Lends each record to `body`; of a log from the air the packets that a host would have seen.
  ///
  /// - Parameter keys: of encrypted links in a log from the air.
  /// - Returns: what ends the records before the file does; `nil` where nothing does.
  /// - Throws: where it cannot be opened or is no log.
  static func read(
    _ path: String, keys: [AirKey] = [], progress: (String) -> Void, _ body: (borrowing PacketRecord) -> Void
  ) throws(ReportError) -> String? {
    let name = LogProblem.name(path)
    var input: CompressedInput
    do throws(SystemError) { input = try CompressedInput(path: path) } catch {
      throw .unreadable("\(name): \(LogProblem.text(error))")
    }
    var reader = AnyLogReader(keys: keys)
    do {
      while !Task.isCancelled {
        let piece = try input.next()
        if piece.isEmpty { break }
        try reader.read(piece.span) { body($0) }
        progress("\(reader.recordCount) packets")
      }
      try reader.finish { body($0) }
    } catch let error as WireError {
      let problem = LogProblem.text(error, reader.format, records: reader.recordCount)
      guard reader.format != nil else { throw .unreadable("\(name): \(problem)") }
      return "\(name): \(problem)"
    } catch {
      guard reader.recordCount > 0 else { throw .unreadable("\(name): \(error)") }
      return "\(name): \(error)\(LogProblem.good(reader.recordCount))"
    }
    if Task.isCancelled { throw .interrupted }
    return nil
  }
}

extension LogDevice {
  init(_ connection: ConnectionReport) { self.init(connection.adapter, connection.handle, connection.peer) }
}

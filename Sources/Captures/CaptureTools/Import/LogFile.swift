import BLEDissector
import BLEPacketLog

/// Reads a packet log of any format from its first record to its last.
enum LogFile {
  /// Calls `body` with each record, in the order and with the times of `LogTimeline`. For a sniffer's capture
  /// these are the packets that a host would have received.
  ///
  /// - Parameter keys: keys of encrypted links in a sniffer's capture.
  /// - Returns: the reason if the records end before the file does, else `nil`; and the findings about the
  ///   log's clock.
  /// - Throws: if the file cannot be opened or is not a packet log.
  static func read(
    _ path: String, keys: [AirKey] = [], progress: (String) -> Void, _ body: (borrowing PacketRecord) -> Void
  ) throws(ReportError) -> (problem: String?, timeline: LogTimeline) {
    let log: LogReader
    do throws(LogReader.Problem) { log = try LogReader(path: path, keys: keys, times: .corrected) } catch {
      throw .unreadable("\(error)")
    }
    while !Task.isCancelled, log.read(body) { progress("\(log.recordCount) packets") }
    if let problem = log.problem, problem.isTotal { throw .unreadable("\(problem)") }
    if Task.isCancelled { throw .interrupted }
    return (log.problem.map { "\($0)" }, log.timeline)
  }
}

extension LogDevice {
  init(_ connection: ConnectionReport) { self.init(connection.adapter, connection.handle, connection.peer) }
}

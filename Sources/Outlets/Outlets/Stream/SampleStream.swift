package import BLELinux
import BLEWire
import Synchronization

/// Live samples of recordings as lines of JSON, for any number of readers.
///
/// The thread that writes the recording's files encodes each line once for all readers, and only if there are
/// readers. Each reader has a bounded queue and its own thread. If a reader is too slow, lines are dropped
/// for this reader, and the reader receives a line with the number of dropped lines. The recording never
/// waits.
package final class SampleStream: Sendable {
  /// Events to report to the user.
  package enum News: Sendable {
    /// Writing to standard output failed; the error is EPIPE if the reader has closed it.
    case outputEnded(SystemError)
    /// A reader was rejected because the maximum number of readers is connected.
    case refused
  }

  static let readerLimit = Limit(
    64, "readers of a stream at once", by: .program, whenFull: "further ones are closed at once",
    counted: "a line on standard error for each")
  /// Time in milliseconds for which samples are queued while there are readers.
  private static let gatherMilliseconds = 20
  /// Time limit at the end for a reader that accepts no data.
  private static let patience = Duration.seconds(5)

  private struct State: Sendable {
    var readers: [StreamReader] = []
    /// Lines that describe tables, by device and table, for readers that connect later.
    var tables: [(key: TableKey, line: [UInt8])] = []
    var isOver = false
  }

  /// Identifies the table that a line describes.
  struct TableKey: Hashable, Sendable {
    var device: DeviceAddress
    var number: Int
  }

  private let ports: [ReaderPort]
  private let webPorts: [WebPort]
  private let output: StreamReader?
  private let news: @Sendable (News) -> Void
  private let state = Mutex(State())
  /// Number of connected readers; read for each row without the lock.
  private let readerCount = Atomic<Int>(0)

  /// Opens the ports and accepts readers.
  ///
  /// - Parameters:
  ///   - targets: the targets, without duplicates.
  ///   - news: called on a thread of the stream.
  /// - Throws: EADDRINUSE if the port is in use, or if the path is a file other than a socket of this user.
  package init(
    _ targets: [StreamTarget], news: @escaping @Sendable (News) -> Void
  ) throws(SystemError) {
    self.news = news
    var ports: [ReaderPort] = []
    var webPorts: [WebPort] = []
    do throws(SystemError) {
      for case .port(let place) in targets { ports.append(try ReaderPort(place)) }
      for case .web(let place) in targets { webPorts.append(try WebPort(place)) }
      output = targets.contains(.standardOutput) ? try StreamReader(StandardOutputSink()) : nil
    } catch {
      for port in ports { port.close() }
      for port in webPorts { port.close() }
      throw error
    }
    (self.ports, self.webPorts) = (ports, webPorts)
    do throws(SystemError) {
      for port in ports {
        try SystemThread.start(named: "ringtap-readers", as: .patient) { [self] in
          while let descriptor = port.next() {
            let sink = SocketSink(descriptor)
            if join(sink) == nil { sink.close() }
          }
        }
      }
      for port in webPorts {
        try SystemThread.start(named: "ringtap-readers", as: .patient) { [self] in
          port.serve { client in
            guard let reader = self.join(client) else { return nil }
            return { self.leave(reader) }
          }
        }
      }
      if let output { try begin(output) }
    } catch {
      close()
      throw error
    }
  }

  /// Returns an output for the samples of a device.
  package func output(of device: SampleDevice) -> any SampleOutput { DeviceLines(device, on: self) }

  // MARK: The end

  /// Stops accepting readers, and removes the files of UNIX sockets. May be called repeatedly.
  package func close() {
    for port in ports { port.close() }
    for port in webPorts { port.close() }
    let readers = state.withLock { state in
      state.isOver = true
      return state.readers
    }
    for reader in readers { reader.end() }
  }

  /// Ends the stream, and waits for readers that still accept data. Abandons readers that accept no data, and
  /// all readers if the task is cancelled.
  package func finish() async {
    close()
    let readers = state.withLock(\.readers)
    await withTaskGroup(of: Void.self) { group in
      for reader in readers { group.addTask { await reader.finish(within: Self.patience) } }
    }
  }

  /// Number of lines that were dropped or not sent to the reader of standard output; 0 if this reader has
  /// closed the pipe.
  package var missed: Int {
    guard let output, state.withLock({ $0.readers.contains { $0 === output } }) else { return 0 }
    return output.missed
  }

  // MARK: Readers

  /// Adds a reader that has connected.
  ///
  /// - Returns: the reader; `nil` if the reader was refused.
  private func join(_ sink: some LineSink) -> StreamReader? {
    guard let reader = try? StreamReader(sink) else { return nil }
    if (try? begin(reader)) == true { return reader }
    news(.refused)
    return nil
  }

  /// Removes a reader that has disconnected.
  private func leave(_ reader: StreamReader) {
    forget(reader)
    reader.abandon()
  }

  /// Adds a reader and starts sending to it.
  ///
  /// - Returns: whether the reader was accepted.
  @discardableResult private func begin(_ reader: StreamReader) throws(SystemError) -> Bool {
    let isTaken = state.withLock { state in
      guard !state.isOver, state.readers.count < Self.readerLimit.count else { return false }
      for table in state.tables { reader.offer(table.line, .notice) }
      state.readers.append(reader)
      readerCount.store(state.readers.count, ordering: .releasing)
      return true
    }
    guard isTaken else { return false }
    do throws(SystemError) {
      try reader.start { [self] reader, error in
        forget(reader)
        if reader === output { news(.outputEnded(error)) }
      }
    } catch {
      forget(reader)
      throw error
    }
    return true
  }

  private func forget(_ reader: StreamReader) {
    state.withLock { state in
      state.readers.removeAll { $0 === reader }
      readerCount.store(state.readers.count, ordering: .releasing)
    }
  }

  // MARK: Lines

  /// Number of connected readers.
  var readers: Int { readerCount.load(ordering: .acquiring) }
  var hasReaders: Bool { readers > 0 }

  var gatherMilliseconds: Int? { hasReaders ? Self.gatherMilliseconds : nil }

  /// Sets the line that describes a table. Readers that connect later receive this line first.
  func describe(_ key: TableKey, _ line: [UInt8]) {
    state.withLock { state in
      if let place = state.tables.firstIndex(where: { $0.key == key }) {
        state.tables[place].line = line
      } else {
        state.tables.append((key, line))
      }
      for reader in state.readers { reader.offer(line, .notice) }
    }
  }

  func send(_ batch: LineBatch) {
    for reader in state.withLock(\.readers) { reader.offer(batch) }
  }

  func send(notice line: [UInt8]) {
    for reader in state.withLock(\.readers) { reader.offer(line, .notice) }
  }
}

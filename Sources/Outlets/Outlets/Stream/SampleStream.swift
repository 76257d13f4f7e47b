package import BLELinux
import BLEWire
import Synchronization

/// Samples of recordings as lines of JSON, for any number of readers while they are recorded.
///
/// The writer's thread makes the lines, once for all readers, and only where there is one. Each reader has a bounded queue and a
/// thread of its own: one that is slow, or stands still, loses lines and is told how many, and the recording never waits.
package final class SampleStream: Sendable {
  /// What happened to it, for a person.
  package enum News: Sendable {
    /// Standard output takes no more; EPIPE: nobody reads it.
    case outputEnded(SystemError)
    /// One reader more than there may be has come.
    case refused
  }

  static let readerLimit = Limit(
    64, "readers of a stream at once", by: .program, whenFull: "further ones are closed at once",
    counted: "a line on standard error for each")
  /// In milliseconds: how long samples gather where there are readers.
  private static let gatherMilliseconds = 20
  /// How long a reader may take nothing at the end.
  private static let patience = Duration.seconds(5)

  private struct State: Sendable {
    var readers: [StreamReader] = []
    /// The lines that describe tables, for readers that come late, by device and table.
    var tables: [(key: TableKey, line: [UInt8])] = []
    var isOver = false
  }

  /// Which table a line describes.
  struct TableKey: Hashable, Sendable {
    var device: DeviceAddress
    var number: Int
  }

  private let ports: [ReaderPort]
  private let output: StreamReader?
  private let news: @Sendable (News) -> Void
  private let state = Mutex(State())
  /// Looked at for each row, without the lock.
  private let readerCount = Atomic<Int>(0)

  /// Opens the ports, and takes readers.
  ///
  /// - Parameters:
  ///   - targets: each once.
  ///   - news: called on a thread of the stream.
  /// - Throws: EADDRINUSE where somebody answers at a port already, or there is a file that is no socket of this user's.
  package init(
    _ targets: [StreamTarget], news: @escaping @Sendable (News) -> Void
  ) throws(SystemError) {
    self.news = news
    var ports: [ReaderPort] = []
    do throws(SystemError) {
      for case .port(let place) in targets { ports.append(try ReaderPort(place)) }
      output = targets.contains(.standardOutput) ? try StreamReader(StandardOutputSink()) : nil
    } catch {
      for port in ports { port.close() }
      throw error
    }
    self.ports = ports
    do throws(SystemError) {
      for port in ports {
        try SystemThread.start(named: "ringtap-readers", as: .patient) { [self] in
          while let descriptor = port.next() { join(SocketSink(descriptor)) }
        }
      }
      if let output { try begin(output) }
    } catch {
      close()
      throw error
    }
  }

  /// Where the samples of a device go in.
  package func output(of device: SampleDevice) -> any SampleOutput { DeviceLines(device, on: self) }

  // MARK: The end

  /// Takes no more readers, and removes the files of UNIX sockets. Any number of times.
  package func close() {
    for port in ports { port.close() }
    let readers = state.withLock { state in
      state.isOver = true
      return state.readers
    }
    for reader in readers { reader.end() }
  }

  /// Ends it, and waits for readers that still take something; whoever stands still is left, and all are where the task is
  /// cancelled.
  package func finish() async {
    close()
    let readers = state.withLock(\.readers)
    await withTaskGroup(of: Void.self) { group in
      for reader in readers { group.addTask { await reader.ended(within: Self.patience) } }
    }
  }

  /// Lines that standard output's reader did not get: found no room, or are not sent. 0 where it has gone: it wanted no more.
  package var missed: Int {
    guard let output, state.withLock({ $0.readers.contains { $0 === output } }) else { return 0 }
    return output.missed
  }

  // MARK: Readers

  private func join(_ sink: SocketSink) {
    guard let reader = try? StreamReader(sink) else { return sink.close() }
    guard (try? begin(reader)) == true else {
      reader.refuse()
      return news(.refused)
    }
  }

  /// - Returns: whether there was room.
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

  /// Readers that it has now.
  var readers: Int { readerCount.load(ordering: .acquiring) }
  var hasReaders: Bool { readers > 0 }

  var gatherMilliseconds: Int? { hasReaders ? Self.gatherMilliseconds : nil }

  /// A table's line: readers that come later get it first.
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

import BLELinux

/// Where the lines of one reader are written. Calls may wait; they come from the reader's own thread.
protocol LineSink: Sendable {
  /// Waits until there is room, and writes what fits.
  ///
  /// - Returns: octets written.
  /// - Throws: EPIPE or ECONNRESET where the reader has gone.
  func write(_ octets: Span<UInt8>) throws(SystemError) -> Int
  /// Nothing more is written, and a wait for room ends. Any thread.
  func close()
}

/// A program that came to a port.
final class SocketSink: LineSink {
  private let descriptor: FileDescriptor

  init(_ descriptor: consuming FileDescriptor) { self.descriptor = descriptor }

  func write(_ octets: Span<UInt8>) throws(SystemError) -> Int {
    while true {
      do throws(SystemError) { return try descriptor.send(octets) } catch {
        guard error.condition == .wouldBlock else { throw error }
        descriptor.waitUntilWritable()
      }
    }
  }

  func close() {
    descriptor.discardInput()
    descriptor.shutDown()
  }
}

/// Whoever reads standard output, be it a pipe, a file or a terminal.
struct StandardOutputSink: LineSink {
  /// Octets for which a pipe that can be written has room: PIPE_BUF.
  private static let step = 4096

  func write(_ octets: Span<UInt8>) throws(SystemError) -> Int {
    _ = StandardStream.output.isWritable(within: -1)
    let count = min(octets.count, Self.step)
    try StandardStream.output.write(octets.extracting(..<count))
    return count
  }

  func close() {}
}

import BLELinux

/// Destination of one reader's lines. Called on the reader's own thread, so calls may block.
protocol LineSink: Sendable {
  /// Waits until the reader accepts data, and writes as many bytes as possible.
  ///
  /// - Returns: number of bytes written.
  /// - Throws: EPIPE or ECONNRESET if the reader has disconnected.
  func write(_ octets: Span<UInt8>) throws(SystemError) -> Int
  /// Closes the sink. Interrupts a waiting `write`. May be called from any thread.
  func close()
}

/// A program connected to a port.
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

/// Standard output: a pipe, a file or a terminal.
struct StandardOutputSink: LineSink {
  /// Number of bytes that can be written to a writable pipe without blocking: PIPE_BUF.
  private static let step = 4096

  func write(_ octets: Span<UInt8>) throws(SystemError) -> Int {
    _ = StandardStream.output.isWritable(within: -1)
    let count = min(octets.count, Self.step)
    try StandardStream.output.write(octets.extracting(..<count))
    return count
  }

  func close() {}
}

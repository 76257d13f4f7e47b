import Glibc

/// Standard input, output and error.
public enum StandardStream: CInt, Sendable {
  case input = 0
  case output = 1
  case error = 2

  public var isTerminal: Bool { isatty(rawValue) == 1 }

  /// Writes all bytes to a file, terminal or pipe. If the stream is non-blocking, waits for space.
  ///
  /// `write`, `poll`.
  public func write(_ octets: Span<UInt8>) throws(SystemError) {
    try writeAll(octets, to: rawValue, "write standard \(self)")
  }

  /// Reads the available bytes. Waits until at least one byte is available.
  ///
  /// `read`, `poll`.
  ///
  /// - Returns: An empty array at the end of the stream.
  public func read(upTo count: Int) throws(SystemError) -> [UInt8] {
    while true {
      var result = 0
      // SAFETY: the buffer has room for `count` bytes.
      let octets = unsafe [UInt8](unsafeUninitializedCapacity: count) { buffer, filled in
        result = unsafe Glibc.read(rawValue, buffer.baseAddress, count)
        filled = max(0, result)
      }
      if result >= 0 { return octets }
      switch lastError() {
      case EINTR: break
      case EAGAIN:
        var wanted = pollfd(fd: rawValue, events: Int16(POLLIN), revents: 0)
        // SAFETY: `wanted` outlives the call.
        _ = unsafe poll(&wanted, 1, -1)
      case let error: throw SystemError(call: "read", number: error)
      }
    }
  }

  /// Waits until the stream can be written without blocking. A pipe then accepts 4,096 bytes. A pipe without
  /// a reader counts as writable.
  ///
  /// `poll`.
  ///
  /// - Returns: `false` on timeout.
  public func isWritable(within milliseconds: CInt) -> Bool {
    var wanted = pollfd(fd: rawValue, events: Int16(POLLOUT), revents: 0)
    // SAFETY: `wanted` outlives the call.
    return unsafe poll(&wanted, 1, milliseconds) > 0
  }
}

private func writeAll(
  _ octets: Span<UInt8>, to number: CInt, _ call: @autoclosure () -> String
) throws(SystemError) {
  var rest = octets
  while !rest.isEmpty {
    // SAFETY: the pointer covers the span for the length of the call.
    let count = unsafe rest.withUnsafeBufferPointer { unsafe Glibc.write(number, $0.baseAddress, $0.count) }
    if count >= 0 {
      rest = rest.extracting(count...)
      continue
    }
    switch lastError() {
    case EINTR: break
    case EAGAIN:
      var wanted = pollfd(fd: number, events: Int16(POLLOUT), revents: 0)
      // SAFETY: `wanted` outlives the call.
      _ = unsafe poll(&wanted, 1, -1)
    case let error: throw SystemError(call: call(), number: error)
    }
  }
}

/// A shell command, such as a pager, that reads the bytes passed to `write`. It belongs to this process's
/// group, so that it may read the terminal.
@safe public final class ReadingCommand {
  private let stream: UnsafeMutablePointer<FILE>

  /// Starts the command.
  ///
  /// `popen`.
  ///
  /// - Returns: `nil` if the command cannot be started.
  public init?(_ command: String) {
    // SAFETY: both texts are null-terminated strings for the length of the call.
    guard let stream = unsafe popen(command, "we") else { return nil }
    unsafe self.stream = stream
  }

  public func write(_ octets: Span<UInt8>) throws(SystemError) {
    // SAFETY: the stream is open until `finish`.
    try writeAll(octets, to: unsafe fileno(stream), "write to the pager")
  }

  /// Closes the command's input and waits until the command exits. Call this once.
  ///
  /// `pclose`.
  ///
  /// - Returns: The exit status in the format of `waitpid`; 0 is success.
  @discardableResult public func finish() -> CInt {
    // SAFETY: the stream was opened by `popen` and is not used again.
    unsafe pclose(stream)
  }
}

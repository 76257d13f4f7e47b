package import BLEHost
package import BLELinux
import BLEWire
package import JSONText
package import LiveView
package import Synchronization

/// Standard output for results, standard error for everything else.
package enum Console {
  /// An error from writing to standard output.
  package enum WriteError: Error, CustomStringConvertible {
    /// The reader has closed standard output (EPIPE). The command stops without a message.
    case readerGone
    case failed(SystemError)

    package var description: String {
      switch self {
      case .readerGone: "the reader of standard output has closed it"
      case .failed(let error): "\(error)"
      }
    }

    package init(_ error: SystemError) {
      self = error.number == SystemError.readerGone ? .readerGone : .failed(error)
    }
  }

  /// The program's version.
  package static let version = "0.1.0"

  package static var isErrorTerminal: Bool { StandardStream.error.isTerminal }

  /// Writes results without buffering, even into a pipe.
  package static func write(_ octets: some Sequence<UInt8>) throws(WriteError) {
    let octets = [UInt8](octets)
    do throws(SystemError) { try StandardStream.output.write(octets.span) } catch {
      throw WriteError(error)
    }
  }

  /// Prints lines for people. Escapes control characters, which text from devices may contain, so that they
  /// cannot affect the terminal.
  package static func print(_ line: String) throws(WriteError) {
    try write((line.printableLines + "\n").utf8)
  }

  package static func json(_ body: (inout JSONLine) -> Void) throws(WriteError) {
    var line = JSONLine()
    line.object(body)
    line.endLine()
    try write(line.octets)
  }

  /// Prints one line for people on standard error.
  package static func note(_ text: String) {
    tell("ringtap: \(text.printableLines)\n")
  }

  private static let hasFailed = Atomic(false)

  /// Prints one line about a failure that does not end the command. The exit status becomes 1.
  package static func note(failure text: String) {
    hasFailed.store(true, ordering: .relaxed)
    note(text)
  }

  /// Returns whether a failure was noted since the last call.
  package static func takeFailure() -> Bool { hasFailed.exchange(false, ordering: .relaxed) }

  /// Prints the name and address of the sensor that a search has found.
  package static func note(found advertiser: Advertiser) {
    let name = advertiser.name.map { $0.printable + " " } ?? ""
    note("found \(name)\(advertiser.address) (\(advertiser.address.type.name))")
  }

  /// Prints the parser's usage error.
  package static func usage(_ text: String) {
    tell(text.printableLines + "\n")
  }

  /// Replaces the current line of the terminal. Does nothing if standard error is not a terminal.
  package static func progress(_ text: String) {
    guard isErrorTerminal else { return }
    tell("\r\u{1B}[K\(text.printable)")
  }

  /// Prints a question. The user types the answer on the same line.
  package static func ask(_ question: String) { tell(question.printableLines) }

  private static func tell(_ text: String) {
    view.withLock { view in send(view?.message(text) ?? [UInt8](text.utf8)) }
  }

  package static func send(_ octets: [UInt8]) {
    // If standard error is closed, the message is lost.
    try? StandardStream.error.write(octets.span)
  }
}

/// An error that ends a command. Its text is one line with the cause and advice.
package struct Failure: Error, CustomStringConvertible {
  package let message: String
  /// The radio's error, if the cause is an error of the radio.
  package let cause: HostError?

  package var description: String { message }

  package init(_ error: some Error) { (message, cause) = (ErrorGuide.text(of: error), error as? HostError) }
  package init(_ message: String) { (self.message, cause) = (message, nil) }
}

/// Runs `body`, and converts an error of a library into a `Failure`, whose line ends the command.
package func failing<Value: ~Copyable, E: Error>(_ body: () throws(E) -> Value) throws -> Value {
  do throws(E) { return try body() } catch { throw Failure(error) }
}

package func failing<Value, E: Error>(
  _ body: () async throws(E) -> Value
) async throws -> Value {
  do throws(E) { return try await body() } catch {
    try Task.checkCancellation()
    throw Failure(error)
  }
}

extension UInt16 {
  /// A handle in the usual notation: `0x0012`.
  package var handleText: String {
    let digits = String(self, radix: 16)
    return "0x" + String(repeating: "0", count: 4 - digits.count) + digits
  }
}

/// The live view at the bottom of the terminal on standard error. Messages scroll above it.
extension Console {
  package static let view = Mutex<LiveFrames?>(nil)

  package static func openView(isColored: Bool) {
    TerminalKeys.open()
    view.withLock { $0 = LiveFrames(isColored: isColored) }
  }

  /// Draws a frame. Does nothing if the view is closed.
  package static func drawView(_ lines: [LiveLine], _ size: (columns: Int, rows: Int)) {
    view.withLock { view in
      if let octets = view?.draw(lines, columns: size.columns, rows: size.rows) { send(octets) }
    }
  }

  /// Closes the view. Erases the last frame, or leaves it on the screen above the next output.
  package static func closeView(erasing: Bool) {
    TerminalKeys.close()
    view.withLock { view in
      if let octets = erasing ? view?.erase() : view?.leave() { send(octets) }
      view = nil
    }
  }

  /// Leaves the current frame on the screen and continues below the frame. Does not block, because the
  /// process may be about to end.
  package static func leaveView() {
    _ = view.withLockIfAvailable { view in
      if let octets = view?.leave() { send(octets) }
    }
  }

  /// Discards the current frame after another program has used the terminal.
  package static func forgetView() { view.withLock { _ = $0?.leave() } }
}

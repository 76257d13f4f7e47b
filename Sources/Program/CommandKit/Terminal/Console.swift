package import BLEHost
package import BLELinux
import BLEWire
package import JSONText
import LiveView
import Synchronization

/// Standard output for results, standard error for all else.
package enum Console {
  /// Standard output takes no more.
  package enum WriteError: Error {
    /// Whoever read our output has gone: nothing to report, just stop.
    case readerGone
    case failed(SystemError)

    package init(_ error: SystemError) {
      self = error.number == SystemError.readerGone ? .readerGone : .failed(error)
    }
  }

  /// Of this program.
  package static let version = "0.1.0"

  package static var isErrorTerminal: Bool { StandardStream.error.isTerminal }

  /// Writes results at once, also into a pipe.
  package static func write(_ octets: some Sequence<UInt8>) throws(WriteError) {
    let octets = [UInt8](octets)
    do throws(SystemError) { try StandardStream.output.write(octets.span) } catch {
      throw WriteError(error)
    }
  }

  /// Lines for people: whatever text of others is in them, it steers no terminal.
  package static func print(_ line: String) throws(WriteError) {
    try write((line.printableLines + "\n").utf8)
  }

  package static func json(_ body: (inout JSONLine) -> Void) throws(WriteError) {
    var line = JSONLine()
    line.object(body)
    line.endLine()
    try write(line.octets)
  }

  /// One line for a person on standard error.
  package static func note(_ text: String) {
    tell("ringtap: \(text.printableLines)\n")
  }

  private static let hasFailed = Atomic(false)

  /// Like `note`, of something that failed while the command goes on: its exit status is 1 at the end.
  package static func note(failure text: String) {
    hasFailed.store(true, ordering: .relaxed)
    note(text)
  }

  /// Whether there was such a note since this was last asked.
  package static func takeFailure() -> Bool { hasFailed.exchange(false, ordering: .relaxed) }

  /// Says which sensor a search has found.
  package static func note(found advertiser: Advertiser) {
    let name = advertiser.name.map { $0.printable + " " } ?? ""
    note("found \(name)\(advertiser.address) (\(advertiser.address.type.name))")
  }

  /// The parser's own message for wrong usage.
  package static func usage(_ text: String) {
    tell(text.printableLines + "\n")
  }

  /// Replaces the current line of the terminal; nothing elsewhere.
  package static func progress(_ text: String) {
    guard isErrorTerminal else { return }
    tell("\r\u{1B}[K\(text.printable)")
  }

  /// A question whose answer follows it on the line.
  package static func ask(_ question: String) { tell(question.printableLines) }

  private static func tell(_ text: String) {
    view.withLock { view in send(view?.message(text) ?? [UInt8](text.utf8)) }
  }

  package static func send(_ octets: [UInt8]) {
    // With standard error gone there is nobody left to tell.
    try? StandardStream.error.write(octets.span)
  }
}

/// A command that failed: one line says what and what to do.
package struct Failure: Error, CustomStringConvertible {
  package let message: String

  package var description: String { message }

  package init(_ error: some Error) { message = ErrorGuide.text(of: error) }
  package init(_ message: String) { self.message = message }
}

/// Turns the libraries' errors into the one line that a command ends with.
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
  /// `0x0012`, as handles are written everywhere.
  package var handleText: String {
    let digits = String(self, radix: 16)
    return "0x" + String(repeating: "0", count: 4 - digits.count) + digits
  }
}

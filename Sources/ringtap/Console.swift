import BLEHost
import BLESystem
import JSONText
import RingTap
import Synchronization

/// Standard output for results, standard error for all else.
enum Console {
  /// Whoever read our output has gone: nothing to report, just stop.
  struct Closed: Error {}

  static var isErrorTerminal: Bool { StandardStream.error.isTerminal }

  /// Writes results at once, also into a pipe.
  static func write(_ octets: some Sequence<UInt8>) throws(Closed) {
    let octets = [UInt8](octets)
    do throws(SystemError) { try StandardStream.output.write(octets.span) } catch { throw Closed() }
  }

  static func print(_ line: String) throws(Closed) { try write((line + "\n").utf8) }

  static func json(_ body: (inout JSONLine) -> Void) throws(Closed) {
    var line = JSONLine()
    line.object(body)
    line.endLine()
    try write(line.octets)
  }

  /// One line for a person on standard error.
  static func note(_ text: String) {
    tell("ringtap: \(text)\n")
  }

  /// The parser's own message for wrong usage.
  static func usage(_ text: String) {
    tell(text + "\n")
  }

  /// Replaces the current line of the terminal; nothing elsewhere.
  static func progress(_ text: String) {
    guard isErrorTerminal else { return }
    tell("\r\u{1B}[K\(text)")
  }

  /// A question whose answer follows it on the line.
  static func ask(_ question: String) { tell(question) }

  private static func tell(_ text: String) {
    view.withLock { view in send(view?.message(text) ?? [UInt8](text.utf8)) }
  }

  static func send(_ octets: [UInt8]) {
    // With standard error gone there is nobody left to tell.
    try? StandardStream.error.write(octets.span)
  }
}

/// A command that failed: one line says what and what to do.
struct Failure: Error {
  let message: String

  init(_ error: some Error) { message = ErrorGuide.text(of: error) }
  init(_ message: String) { self.message = message }
}

/// Turns the libraries' errors into the one line that a command ends with.
func failing<Value: ~Copyable, E: Error>(_ body: () throws(E) -> Value) throws -> Value {
  do throws(E) { return try body() } catch { throw Failure(error) }
}

func failing<Value, E: Error>(
  _ body: () async throws(E) -> Value
) async throws -> Value {
  do throws(E) { return try await body() } catch {
    try Task.checkCancellation()
    throw Failure(error)
  }
}

extension UInt16 {
  /// `0x0012`, as handles are written everywhere.
  var handleText: String {
    let digits = String(self, radix: 16)
    return "0x" + String(repeating: "0", count: 4 - digits.count) + digits
  }
}

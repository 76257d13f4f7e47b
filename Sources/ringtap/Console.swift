import BLEPacketLog
import Foundation

/// Standard output for results, standard error for all else.
enum Console {
  /// Whoever read our output has gone: nothing to report, just stop.
  struct Closed: Error {}

  static var isErrorTerminal: Bool { isatty(FileHandle.standardError.fileDescriptor) == 1 }

  /// Writes results at once, also into a pipe.
  static func write(_ octets: some Sequence<UInt8>) throws(Closed) {
    do {
      try FileHandle.standardOutput.write(contentsOf: Data(octets))
    } catch { throw Closed() }
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
    // With standard error gone there is nobody left to tell.
    try? FileHandle.standardError.write(contentsOf: Data("ringtap: \(text)\n".utf8))
  }

  /// The parser's own message for wrong usage.
  static func usage(_ text: String) {
    try? FileHandle.standardError.write(contentsOf: Data((text + "\n").utf8))
  }

  /// Replaces the current line of the terminal; nothing elsewhere.
  static func progress(_ text: String) {
    guard isErrorTerminal else { return }
    try? FileHandle.standardError.write(contentsOf: Data("\r\u{1B}[K\(text)".utf8))
  }
}

/// A command that failed: one line says what and what to do.
struct Failure: Error {
  let message: String

  init(_ error: some Error) { message = "\(error)" }
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

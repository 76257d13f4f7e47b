import ArgumentParser
package import BLEPacketLog

/// Keys for decrypting air logs.
package struct AirKeyOptions: ParsableArguments {
  @Option(
    name: [.customLong("ltk"), .customLong("key")],
    help: ArgumentHelp(
      "A long-term key of links in an air log, 32 hexadecimal digits; may be repeated.",
      valueName: "hex"),
    transform: { text throws(ValidationError) in
      guard let key = AirKey(text) else {
        throw ValidationError("'\(text)' is not a key of 32 hexadecimal digits")
      }
      return key
    })
  var ltk: [AirKey] = []

  package var keys: [AirKey] { ltk }

  /// Opens a log with these keys.
  ///
  /// - Parameter path: `-` for standard input.
  package func open(_ path: String, times: LogReader.Times = .asWritten) throws -> LogReader {
    do throws(LogReader.Problem) { return try LogReader(path: path, keys: ltk, times: times) } catch {
      throw Failure("\(error)")
    }
  }

  package init() {}
}

package import BLELinux
package import JSONText

/// Reads the `session.json` of a capture.
package enum SessionDocument {
  /// Maximum size of the file, in bytes.
  private static let limit = 1 << 23

  /// Reason why the file cannot be read.
  package enum Problem: Error, CustomStringConvertible {
    case file(SystemError)
    case content(JSONDocument.Failure)
    /// Valid JSON that was not written by a recording.
    case form(String)
    /// Written by a later version of ringtap.
    case laterFormat(Int)

    package var description: String {
      switch self {
      case .file(let error): "session.json cannot be read (\(error))"
      case .content(let failure): "session.json is damaged (\(failure))"
      case .form(let what): "session.json is damaged (\(what))"
      case .laterFormat(let version):
        "session.json has format \(version), but this program reads up to \(SessionReport.formatVersion): "
          + "use a later one"
      }
    }
  }

  /// Returns whether the directory has no file of this name, not even a dangling link.
  package static func isMissing(in directory: String) -> Bool {
    !Files.names(in: directory).contains("session.json")
  }

  /// Returns the reason why the losses of a capture are unknown; `nil` if the document contains them.
  package static func unknownLoss(_ document: JSONDocument) -> String? {
    guard document["received"] != nil, document["lost"] != nil else {
      return "session.json does not record it"
    }
    guard document["endedAtNs"] != nil else {
      return "session.json has no end: the recording was interrupted or is still running"
    }
    return Ledger(document).knowsMissing ? nil : "session.json has an older format"
  }

  /// Returns a description of the damage of an existing document; `nil` if the document is missing or
  /// readable.
  package static func damage(in directory: String) -> String? {
    guard !isMissing(in: directory) else { return nil }
    do throws(Problem) {
      _ = try read(in: directory)
      return nil
    } catch { return "\(error)" }
  }

  package static func read(in directory: String) throws(Problem) -> JSONDocument {
    let octets: [UInt8]
    do throws(SystemError) {
      octets = try Files.octets(of: directory + "/session.json", limit: limit)
    } catch { throw .file(error) }
    guard String(validating: octets, as: UTF8.self) != nil else { throw .form("it is not UTF-8") }
    let document: JSONDocument
    do throws(JSONDocument.Failure) { document = try JSONDocument(octets) } catch { throw .content(error) }
    try check(document)
    return document
  }

  /// Optional members that must be numbers.
  private static let counts = ["received", "malformed", "repeated", "gapCount", "links"]

  private static func check(_ document: JSONDocument) throws(Problem) {
    guard case .object(let members) = document, !members.isEmpty else {
      throw .form("it is not a JSON object with members")
    }
    // A document of format 1 has no version number. Its tables of heart rates have not changed.
    if let version = members["formatVersion"] {
      guard let number: Int = version.integer(), number > 0 else {
        throw .form("its formatVersion is not a number")
      }
      guard number <= SessionReport.formatVersion else { throw .laterFormat(number) }
    }
    func isCount(_ value: JSONDocument?) -> Bool {
      value.map { $0.integer(Int.self).map { $0 >= 0 } ?? false } ?? true
    }
    for name in counts where !isCount(members[name]) { throw .form("its \(name) is not a count") }
    guard let lost = members["lost"] else { return }
    guard case .object(let places) = lost else { throw .form("its lost is not an object") }
    for (name, count) in places.sorted(by: { $0.key < $1.key }) where !isCount(count) {
      throw .form("its lost.\(name.printable) is not a count")
    }
  }
}

package import BLELinux
package import JSONText

/// `session.json` of a capture, as it is read again.
package enum SessionDocument {
  /// Octets, at most.
  private static let limit = 1 << 23

  /// Why it cannot be read.
  package enum Problem: Error, CustomStringConvertible {
    case file(SystemError)
    case content(JSONDocument.Failure)

    package var description: String {
      switch self {
      case .file(let error): "session.json cannot be read (\(error))"
      case .content(let failure): "session.json is damaged (\(failure))"
      }
    }
  }

  /// What is wrong with a document that is there.
  package static func damage(in directory: String) -> String? {
    guard Files.exists(directory + "/session.json") else { return nil }
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
    do throws(JSONDocument.Failure) { return try JSONDocument(octets) } catch { throw .content(error) }
  }
}

import Foundation
import Testing

/// Bytes of a file, none if there is no such file.
package func contents(_ path: String) -> [UInt8] {
  FileManager.default.contents(atPath: path).map { [UInt8]($0) } ?? []
}

/// Lines of a file; none if its last line is incomplete.
package func rows(_ path: String) -> [String] {
  let text = String(decoding: contents(path), as: UTF8.self)
  return text.hasSuffix("\n") ? text.dropLast().split(separator: "\n").map(String.init) : []
}

/// Members of a JSON file.
package func json(_ path: String) throws -> [String: Any] {
  let object = try JSONSerialization.jsonObject(with: Data(contents(path)))
  return try #require(object as? [String: Any])
}

import Foundation
import Testing

/// Expects the collected tables to equal those of a capture, byte for byte.
///
/// - Returns: Number of rows in all tables.
@discardableResult package func expectCollected(_ capture: String, in folder: String) throws -> Int {
  let progress = try json(capture + "/publish.json")
  let publisher = try #require(progress["publisher"] as? String)
  let session = try #require(progress["session"] as? String)
  let collected = "\(folder)/\(publisher)/\(session)"
  let tables = try FileManager.default.contentsOfDirectory(atPath: capture).filter { $0.hasSuffix(".csv") }
  #expect(!tables.isEmpty)
  let theirs = try FileManager.default.contentsOfDirectory(atPath: collected).filter { $0.hasSuffix(".csv") }
  #expect(tables.sorted() == theirs.sorted())
  for table in tables {
    #expect(contents(capture + "/" + table) == contents(collected + "/" + table), "\(table)")
  }
  #expect(contents(capture + "/session.json") == contents(collected + "/session.json"))
  return tables.reduce(0) { $0 + rows(capture + "/" + $1).count - 1 }
}

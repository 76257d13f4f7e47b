import Foundation
import TestKit

/// A program on this machine that reads logs and that nobody here wrote.
struct ExternalTool {
  let name: String

  init(_ name: String) { self.name = name }

  /// Standard output of a run that must succeed.
  func output(_ arguments: [String]) throws -> String { try Program.output(of: name, arguments) }

  /// The same about a log that exists no longer than that.
  func output(_ arguments: [String], of log: [UInt8]) throws -> String {
    try withFolder { folder in
      let file = folder + "/log.btsnoop"
      try Data(log).write(to: URL(filePath: file))
      return try output(arguments + [file])
    }
  }
}

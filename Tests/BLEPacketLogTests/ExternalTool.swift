import Foundation
import TestKit

/// An independent program on this machine that reads logs.
struct ExternalTool {
  let name: String

  init(_ name: String) { self.name = name }

  /// Standard output of a run that must succeed.
  func output(_ arguments: [String]) throws -> String { try Program.output(of: name, arguments) }

  /// The same, for a log in a temporary file.
  func output(_ arguments: [String], of log: [UInt8]) throws -> String {
    try withFolder { folder in
      let file = folder + "/log.btsnoop"
      try Data(log).write(to: URL(filePath: file))
      return try output(arguments + [file])
    }
  }
}

import Foundation
import TestKit

/// An independent program on this machine that reads logs.
struct ExternalTool {
  let name: String

  init(_ name: String) { self.name = name }

  /// Runs the program, which must succeed, and returns its standard output.
  func output(_ arguments: [String]) throws -> String { try Program.output(of: name, arguments) }

  /// Runs the program on a log in a temporary file, and returns its standard output.
  func output(_ arguments: [String], of log: [UInt8]) throws -> String {
    try withFolder { folder in
      let file = folder + "/log.btsnoop"
      try Data(log).write(to: URL(filePath: file))
      return try output(arguments + [file])
    }
  }
}

import ArgumentParser
package import BLELinux

/// Whether files that are there may be replaced, on every command that writes a file where a person says.
///
/// A command calls `check` for each such file before it reads or writes anything, and writes by `Files.write` or `OutputFile`
/// with `existing`, which look again when the file gets its name.
package struct OverwriteOptions: ParsableArguments {
  package init() {}

  @Flag(help: "Replace files that are there already.")
  package var force = false

  package var existing: Files.Existing { force ? .replace : .refuse }

  /// Refuses a name that stands for something that is to stay: a file, a link or a directory without --force, and a file
  /// that is read. `-`, `/dev/stdout`, devices and pipes are written as they are.
  ///
  /// - Parameters:
  ///   - path: what is to be written; `nil` for nothing.
  ///   - option: which tells the name.
  ///   - inputs: files that the command reads.
  /// - Throws: `Failure` with what to do.
  package func check(_ path: String?, _ option: String, inputs: [String] = []) throws {
    guard let path, path != "-", Files.isOccupied(path) else { return }
    if let input = inputs.first(where: { Files.areSame($0, path) }) {
      throw Failure("\(path) would be overwritten while \(input) is read; give another \(option)")
    }
    guard !Files.isDirectory(path) else { throw Failure("\(path) is a directory; give another \(option)") }
    guard force else {
      throw Failure("\(path) is there already; give another \(option), or --force to replace it")
    }
  }

  /// Refuses a folder for files whose names are not known yet, unless it is empty or not there, or with --force.
  package func check(folder path: String, _ option: String) throws {
    guard !force, Files.isOccupied(path) else { return }
    guard Files.isDirectory(path), Files.names(in: path).allSatisfy({ $0 == "." || $0 == ".." }) else {
      throw Failure(
        "\(path) is there already and not empty; give another \(option), or --force to replace what has the same name"
      )
    }
  }
}

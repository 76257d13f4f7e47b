import ArgumentParser
package import BLELinux

/// Whether existing files may be replaced, on every command that writes a file named by the user.
///
/// A command calls `check` for each such file before it reads or writes anything. It writes with
/// `Files.write` or `OutputFile` and passes `existing`; they check again when the file gets its name.
package struct OverwriteOptions: ParsableArguments {
  package init() {}

  @Flag(help: "Replace existing files.")
  package var force = false

  package var existing: Files.Existing { force ? .replace : .refuse }

  /// Refuses a name that must not be replaced: an existing file, link or directory unless --force is given,
  /// and always a file that is read. `-`, `/dev/stdout`, devices and pipes are written directly.
  ///
  /// - Parameters:
  ///   - path: the file to write; `nil` if none.
  ///   - option: the option that gives the name, for the message.
  ///   - inputs: files that the command reads.
  /// - Throws: `Failure` with advice.
  package func check(_ path: String?, _ option: String, inputs: [String] = []) throws {
    guard let path, path != "-", Files.isOccupied(path) else { return }
    if let input = inputs.first(where: { Files.areSame($0, path) }) {
      throw Failure("\(path) would be overwritten while \(input) is read; choose another \(option)")
    }
    guard !Files.isDirectory(path) else { throw Failure("\(path) is a directory; choose another \(option)") }
    guard force else {
      throw Failure("\(path) already exists; choose another \(option), or replace it with --force")
    }
  }

  /// Refuses a folder that exists and is not empty, unless --force is given. For files whose names are not
  /// known yet.
  package func check(folder path: String, _ option: String) throws {
    guard !force, Files.isOccupied(path) else { return }
    guard Files.isDirectory(path), Files.names(in: path).allSatisfy({ $0 == "." || $0 == ".." }) else {
      throw Failure(
        "\(path) already exists and is not empty; choose another \(option), or replace files of the same "
          + "name with --force"
      )
    }
  }
}

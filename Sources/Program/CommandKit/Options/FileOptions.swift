import ArgumentParser
package import BLELinux
package import Recording

/// Format and sync interval of a recording's tables.
package struct TableOptions: ParsableArguments {
  package init() {}

  package enum Format: String, CaseIterable, ExpressibleByArgument {
    case csv, npy
  }

  @Option(
    help: ArgumentHelp(
      "The tables' format: csv is text; npy is a NumPy array for each column.", valueName: "format"))
  package var format = Format.csv

  @Option(
    name: .customLong("sync-interval"),
    help: ArgumentHelp(
      "How often samples are synced to disk, 1 to 3600: the most that a power cut can lose. "
        + "Longer intervals spare a memory card. npy is synced at least every 25 s.",
      valueName: "seconds", visibility: .hidden), in: NumberRange(1...3600, "seconds"))
  package var syncSeconds = 1.0

  package var syncInterval: Duration { .seconds(syncSeconds) }

  package var tableFormat: TableFormat { format == .csv ? .csv : .npy }
}

/// The option that allows existing files to be replaced, on every command that writes a file named by the
/// user.
///
/// A command calls `check` for each such file before it reads or writes anything. The command then writes
/// with `Files.write` or `OutputFile` and passes `existing`, which is checked again when the finished file is
/// renamed.
package struct OverwriteOptions: ParsableArguments {
  package init() {}

  @Flag(help: "Replace existing files.")
  package var force = false

  package var existing: Files.Existing { force ? .replace : .refuse }

  /// Rejects a path that must not be replaced: any file that the command reads and, unless --force is given,
  /// an existing file, link or directory. `-`, `/dev/stdout`, devices and pipes are written directly.
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

  /// Rejects an existing folder that is not empty, unless --force is given. Commands use this check if their
  /// file names are not known yet.
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

/// A text file written in an editor on any operating system.
package enum WrittenFile {
  /// Returns the file's bytes without a UTF-8 byte order mark, which some Windows editors add.
  ///
  /// - Throws: the errors of `Files.octets`.
  package static func octets(of path: String, limit: Int) throws(SystemError) -> [UInt8] {
    let octets = try Files.octets(of: path, limit: limit)
    return octets.starts(with: [0xEF, 0xBB, 0xBF]) ? Array(octets.dropFirst(3)) : octets
  }
}

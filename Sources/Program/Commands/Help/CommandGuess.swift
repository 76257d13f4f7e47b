import ArgumentParser
import JSONText

/// Suggests a command for a misspelt word.
enum CommandGuess {
  /// Returns an error message for an unknown command.
  ///
  /// - Parameter word: the first word of a command line.
  /// - Returns: the error message; `nil` if the word is a command or an option.
  static func refusal(of word: String, among commands: [any ParsableCommand.Type]) -> String? {
    let names = commands.flatMap { command in
      [command.configuration.commandName].compactMap(\.self) + command.configuration.aliases
    }
    guard !word.hasPrefix("-"), !names.contains(word) else { return nil }
    let near = names.map { (name: $0, steps: steps(from: word, to: $0)) }.filter { $0.steps <= 2 }
      .min { $0.steps < $1.steps }
    return "'\(word.printable)' is not a command"
      + (near.map { "; did you mean '\($0.name)'?" } ?? "; `ringtap --help` lists all commands")
  }

  /// Edit distance: number of letters to insert, remove or change (V. Levenshtein, 1965).
  static func steps(from word: String, to other: String) -> Int {
    let other = Array(other)
    var row = Array(0...other.count)
    for (place, letter) in word.enumerated() {
      var diagonal = row[0]
      row[0] = place + 1
      for (index, wanted) in other.enumerated() {
        let change = diagonal + (letter == wanted ? 0 : 1)
        diagonal = row[index + 1]
        row[index + 1] = min(change, row[index] + 1, diagonal + 1)
      }
    }
    return row[other.count]
  }
}

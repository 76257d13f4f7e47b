import Commands

/// Runs the program `ringtap`. The code is in the module `Commands`, so that tests can import it.
@main struct Main {
  static func main() async { await Ringtap.main() }
}

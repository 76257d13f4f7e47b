import Commands

/// The executable `ringtap`. Its code is in the module `Commands`, which tests can import.
@main struct Main {
  static func main() async { await Ringtap.main() }
}

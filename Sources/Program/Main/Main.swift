import Commands

/// The program `ringtap`: all of it is in `Program`, where tests reach it.
@main struct Main {
  static func main() async { await Ringtap.main() }
}

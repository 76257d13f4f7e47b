import ArgumentParser
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

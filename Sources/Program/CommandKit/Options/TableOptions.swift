import ArgumentParser
package import Recording

/// How the tables of a recording are kept.
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
      "How often the disk gets what was recorded, 1 to 3600: what a power cut costs at most. Longer spares a memory card. Arrays: "
        + "every 25 at least.",
      valueName: "seconds"), in: NumberRange(1...3600, "seconds"))
  package var syncSeconds = 1.0

  package var syncInterval: Duration { .seconds(syncSeconds) }

  package var tableFormat: TableFormat { format == .csv ? .csv : .npy }
}

import ArgumentParser
import RingTap

/// How the tables of a recording are kept.
struct TableOptions: ParsableArguments {
  enum Format: String, CaseIterable, ExpressibleByArgument {
    case csv, npy
  }

  @Option(
    help: ArgumentHelp(
      "The tables' format: csv is text; npy is a NumPy array for each column.", valueName: "format"))
  var format = Format.csv

  var tableFormat: TableFormat { format == .csv ? .csv : .npy }
}

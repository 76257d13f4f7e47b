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

  package var tableFormat: TableFormat { format == .csv ? .csv : .npy }
}

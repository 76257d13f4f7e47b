package import ArgumentParser
import BLELinux
package import Outlets

/// Options for writing rows to a database during a recording.
package struct InfluxOptions: ParsableArguments {
  package init() {}

  @Option(
    help: ArgumentHelp(
      """
      Write the tables' rows to a database too, in InfluxDB's line protocol: http[s]://host:port/path with \
      the server's parameters, such as http://localhost:8428/write, or /api/v2/write?org=lab&bucket=walks.
      """, valueName: "url"))
  package var influx: String?

  @Option(
    help: ArgumentHelp(
      "A file whose first line is the token for --influx (default: RINGTAP_INFLUX_TOKEN in the environment).",
      valueName: "file"))
  package var influxToken: String?

  @Option(
    help: ArgumentHelp(
      "The CA certificate (PEM) for https:// (default: the system's).", valueName: "file"))
  package var influxCa: String?

  package func validate() throws { _ = try plan() }

  /// Returns the plan for writing rows.
  ///
  /// - Returns: `nil` if nothing is written to a database.
  package func plan() throws -> InfluxPlan? {
    guard let influx else {
      if influxToken != nil || influxCa != nil {
        throw ValidationError("--influx-token and --influx-ca need --influx")
      }
      return nil
    }
    let token =
      try influxToken.map { try BrokerOptions.secret(in: $0) }
      ?? ProcessFacts.environment("RINGTAP_INFLUX_TOKEN")
    do throws(InfluxPlan.ParseError) {
      return try InfluxPlan(influx, token: token, certificates: influxCa, version: Console.version)
    } catch { throw ValidationError("--influx: \(error)") }
  }
}

/// The database connection of a command.
extension InfluxWriter {
  /// Opens the database connection.
  ///
  /// - Returns: `nil` without a plan.
  package static func open(_ plan: InfluxPlan?) throws -> InfluxWriter? {
    guard let plan else { return nil }
    do throws(NoInfluxWriter) { return try InfluxWriter(plan) { Console.note($0) } } catch {
      throw Failure("\(error)")
    }
  }

  /// Writes the remaining rows, and prints a message if some may not have reached the database.
  ///
  /// - Returns: whether the database has confirmed all rows.
  package func finishAndTell() async -> Bool {
    // An interrupted command does not wait long for a database.
    let isOver: Void? = try? await Interruption.leaving { await self.finish() }
    if isOver == nil { await leave() }
    guard let problem else { return true }
    Console.note(
      "\(problem); the recording is complete, and `ringtap convert DIR --to influx` writes all of it")
    return false
  }
}

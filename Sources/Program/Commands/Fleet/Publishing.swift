import ArgumentParser
import BLELinux
import BLEWire
import CommandKit
import Fleet
import JSONText
import Recording
import Synchronization

/// Publishes the capture directories of a command that records.
final class Publishing: Sendable {
  private let plan: PublishRun.Plan
  private let runs = Mutex<[PublishRun]>([])

  init(_ plan: PublishRun.Plan) { self.plan = plan }

  /// Starts publishing a directory into which a recording is about to start.
  func follow(_ directory: String, isAlone: Bool = true) {
    var plan = plan
    // Each device publishes under its own name.
    if !isAlone, let name = plan.name {
      plan.name = FleetName.made(of: "\(name)-\(directory.split(separator: "/").last ?? "")")
    }
    do throws(SystemError) {
      let run = try PublishRun(directory, plan) { Console.note($0) }
      try run.start()
      runs.withLock { $0.append(run) }
    } catch { Console.note("cannot publish: \(error)") }
  }

  /// Stops publishing, because nothing was recorded or the remaining rows are not needed.
  func abandon() {
    for run in runs.withLock({ $0 }) { run.abandon() }
  }

  /// Waits until all rows are published, or until there is no more progress. Ctrl-C ends the wait.
  ///
  /// - Returns: whether everything was published.
  func finish() async throws -> Bool {
    let runs = runs.withLock { $0 }
    let reports = try await Interruption.cancelling {
      await withTaskGroup(of: (Int, PublishReport?).self) { group in
        for (index, run) in runs.enumerated() { group.addTask { (index, await run.finish()) } }
        return await group.reduce(into: [Int: PublishReport]()) { $0[$1.0] = $1.1 }
      }
    }
    var isWhole = true
    for (index, run) in runs.enumerated() {
      guard let report = reports[index] else { continue }
      PublishText.tell(report, plan.broker)
      guard let problem = report.problem else { continue }
      isWhole = false
      Console.note(
        "not everything was published: \(problem); later, `ringtap publish \(run.directory) \(plan.broker)` "
          + "sends the rest"
      )
    }
    return isWhole
  }
}

/// Text about publishing for the user.
enum PublishText {
  static func tell(_ report: PublishReport, _ broker: BrokerAddress) {
    guard !report.session.isEmpty else { return }
    let confirmation =
      report.isConfirmed
      ? "\(report.collector ?? "a collector") has everything"
      : report.collector.map { "\($0) did not confirm everything" } ?? "no collector confirmed anything"
    let skipped = report.skipped > 0 ? ", \(report.skipped) skipped" : ""
    let parts = report.processorTime.components
    let seconds = Double(parts.seconds) + Double(parts.attoseconds) / 1e18
    Console.note(
      "published \(counted(report.confirmed, "row")) as \(broker)/\(report.publisher)/\(report.session)\(skipped); "
        + "\(confirmation); \(NumberText.fixed(seconds, 2)) s of processor time")
    if !report.isConfirmed, report.waiting > 0 {
      let tables = report.tables.filter { $0.waiting > 0 }.map { "\($0.waiting) of \($0.name)" }
      Console.note("not confirmed: \(counted(report.waiting, "row")), \(tables.joined(separator: ", "))")
    }
    if report.isDocumentLeftOut {
      Console.note("session.json is too large or not JSON and was not published")
    }
  }
}

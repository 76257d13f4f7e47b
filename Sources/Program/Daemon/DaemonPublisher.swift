import BLELinux
import BLEWire
import Fleet

/// Publishes a daemon's captures. Each current capture has its own run. Ended captures with unsent rows,
/// including captures of earlier daemons, are published one after the other. The publisher ignores captures
/// of earlier daemons that were never published; use `ringtap publish` for such captures.
///
/// Unsent rows wait in the tables of the captures, and retention limits their size. If the broker is
/// unavailable for days, publishing costs one thread for each device and one for ended captures.
actor DaemonPublisher {
  /// Interval between checks for new and ended captures.
  private static let lookInterval = Duration.seconds(1)
  /// Time limit for publishing the end of a capture. Rows that are then unsent are published later, like rows
  /// of an ended capture.
  private static let endPatience = Duration.seconds(5)
  private static let catchUpPatience = Duration.seconds(20)
  private static let catchUpInterval = Duration.seconds(10)

  nonisolated let plan: PublishRun.Plan
  private let note: @Sendable (String) -> Void
  /// Runs of current and just ended captures, by directory.
  private var runs: [String: PublishRun] = [:]
  private var ending: [String: Task<Void, Never>] = [:]
  /// Paths of ended captures that were published completely.
  private var complete: Set<String> = []
  /// Captures that had ended when this daemon started.
  private var earlier: Set<String>?
  /// The last reported problem of each capture that is not completely published.
  private var faults: [String: String] = [:]
  private var behind = 0
  private var lastProblem: String?

  /// Creates a publisher.
  ///
  /// - Parameter plan: the options of the runs. Each publisher's name is the plan's name followed by the
  ///   device's name.
  init(_ plan: PublishRun.Plan, note: @escaping @Sendable (String) -> Void) {
    self.plan = plan
    self.note = note
  }

  /// Publishes captures until the task is cancelled.
  ///
  /// - Parameter captures: returns all captures with their devices' names, and whether each is still being
  ///   written.
  func run(_ captures: @escaping @Sendable () async -> [DaemonCapture]) async {
    earlier = Set(await captures().lazy.filter { !$0.isOpen }.map(\.path))
    let catchingUp = Task {
      while !Task.isCancelled {
        await catchUp(await captures())
        try? await Task.sleep(for: Self.catchUpInterval)
      }
    }
    while !Task.isCancelled {
      follow(await captures())
      try? await Task.sleep(for: Self.lookInterval)
    }
    catchingUp.cancel()
    await catchingUp.value
  }

  /// Publishes the last rows after all captures have ended. Stops after a few seconds.
  func finish() async {
    follow([])
    for task in ending.values { await task.value }
  }

  // MARK: Current captures

  private func follow(_ captures: [DaemonCapture]) {
    let open = captures.filter(\.isOpen)
    for capture in open where runs[capture.path] == nil && Files.exists(capture.path + "/session.json") {
      begin(capture)
    }
    for (path, run) in runs where ending[path] == nil && !open.contains(where: { $0.path == path }) {
      ending[path] = Task {
        keep(await run.finish())
        (runs[path], ending[path]) = (nil, nil)
      }
    }
  }

  private func begin(_ capture: DaemonCapture) {
    do throws(SystemError) {
      let run = try PublishRun(capture.path, plan(capture, Self.endPatience), note: note)
      try run.start()
      runs[capture.path] = run
    } catch { lastProblem = "\(error)" }
  }

  private func plan(_ capture: DaemonCapture, _ patience: Duration) -> PublishRun.Plan {
    var plan = plan
    plan.name = FleetName.made(of: "\(plan.name ?? ProcessFacts.hostName)-\(capture.device)")
    plan.patience = patience
    return plan
  }

  private func keep(_ report: PublishReport?) {
    if let report { lastProblem = report.problem }
  }

  // MARK: Ended captures

  private func catchUp(_ captures: [DaemonCapture]) async {
    let paths = Set(captures.map(\.path))
    complete.formIntersection(paths)
    earlier?.formIntersection(paths)
    faults = faults.filter { paths.contains($0.key) }
    let waiting = captures.filter { !$0.isOpen && runs[$0.path] == nil && isBehind($0.path) }
    behind = waiting.count
    for capture in waiting where !Task.isCancelled {
      guard let run = try? PublishRun(capture.path, plan(capture, Self.catchUpPatience), note: { _ in }),
        (try? run.start()) != nil, let report = await run.finish()
      else { continue }
      keep(report)
      guard let problem = report.problem else {
        note("\(capture.path) was published, \(counted(report.confirmed, "row"))")
        faults[capture.path] = nil
        behind -= 1
        continue
      }
      let isNew = faults[capture.path] != problem
      if isNew, !Task.isCancelled { note("\(capture.path) was not published completely: \(problem)") }
      faults[capture.path] = problem
      // If the broker is the cause, publishing the next capture would fail too.
      guard report.isCapturesFault else { return }
    }
  }

  /// Returns whether the capture has unsent rows. Also returns true if the capture's cursor cannot be read,
  /// so that publishing reports the error and retries.
  private func isBehind(_ path: String) -> Bool {
    guard !complete.contains(path) else { return false }
    do throws(PublishProblem) {
      let cursor = try PublishCursor.read(in: path)
      if cursor?.isComplete == false { return true }
      if cursor == nil, faults[path] != nil || earlier?.contains(path) == false { return true }
    } catch { return true }
    complete.insert(path)
    return false
  }

  var status: DaemonStatus.Publishing {
    let reports = runs.values.compactMap(\.report)
    return DaemonStatus.Publishing(
      broker: plan.broker.description, acknowledged: reports.reduce(0) { $0 + $1.acknowledged },
      confirmed: reports.reduce(0) { $0 + $1.confirmed }, waiting: reports.reduce(0) { $0 + $1.waiting },
      behind: behind, lastProblem: reports.lazy.compactMap(\.problem).first ?? lastProblem)
  }
}

import Foundation

/// Ends the run if a test hangs, and first prints what each thread waits for. Otherwise the test kernel would
/// run until its time limit and report no cause.
nonisolated final class Watchdog: @unchecked Sendable {  // `lock` guards `begun`
  static let shared = Watchdog()

  /// Time limit of a test; several times the duration of the longest.
  private static let limit = Duration.seconds(420)

  private let lock = NSLock()
  /// Start of the running test; `nil` for suites that do not call `begin`.
  private var begun: ContinuousClock.Instant?

  private init() {
    Thread.detachNewThread { [self] in
      // Not by the wall clock, which a test may set.
      while poll(nil, 0, 5000) >= 0 || errno == EINTR { look() }
    }
  }

  /// Call when a test begins.
  func begin() { lock.withLock { begun = ContinuousClock.now } }

  /// Call when a test ends.
  func end() { lock.withLock { begun = nil } }

  private func look() {
    guard let begun = lock.withLock({ begun }), ContinuousClock.now - begun > Self.limit else { return }
    FileHandle.standardError.write(Data(("a test takes longer than \(Self.limit)\n" + Self.tasks).utf8))
    _exit(70)
  }

  /// All threads of all processes, from /proc.
  private static var tasks: String {
    func names(_ path: String) -> [String] {
      ((try? FileManager.default.contentsOfDirectory(atPath: path)) ?? []).filter { Int($0) != nil }
    }
    var lines: [String] = []
    for process in names("/proc") {
      for task in names("/proc/\(process)/task") {
        let parts = ["comm", "stat", "wchan", "syscall", "stack"].map { name in
          let text = try? String(contentsOfFile: "/proc/\(process)/task/\(task)/\(name)", encoding: .utf8)
          return (text ?? "-").split(separator: "\n").joined(separator: " ").prefix(300)
        }
        lines.append("\(process) \(task): \(parts.joined(separator: " | "))")
      }
    }
    return lines.joined(separator: "\n") + "\n"
  }
}

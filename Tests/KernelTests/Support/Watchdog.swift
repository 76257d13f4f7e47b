import Foundation

/// Ends the run where one test goes on without end, and says first what each thread waits for: else a whole test kernel
/// waits until its time is over, and nobody learns why.
nonisolated final class Watchdog: @unchecked Sendable {  // `lock` guards `begun`
  static let shared = Watchdog()

  /// Several times what the longest test takes.
  private static let limit = Duration.seconds(420)

  private let lock = NSLock()
  /// Of the test that is on; other suites of the run are none of ours.
  private var begun: ContinuousClock.Instant?

  private init() {
    Thread.detachNewThread { [self] in
      // By no wall clock, which a test may set.
      while poll(nil, 0, 5000) >= 0 || errno == EINTR { look() }
    }
  }

  /// A test begins.
  func begin() { lock.withLock { begun = ContinuousClock.now } }

  /// And is over.
  func end() { lock.withLock { begun = nil } }

  private func look() {
    guard let begun = lock.withLock({ begun }), ContinuousClock.now - begun > Self.limit else { return }
    FileHandle.standardError.write(Data(("a test takes longer than \(Self.limit)\n" + Self.tasks).utf8))
    _exit(70)
  }

  /// All threads of all processes, by /proc.
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

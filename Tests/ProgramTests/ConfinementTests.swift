import Foundation
import TestKit
import Testing

/// Capabilities and system calls that a file-reading command keeps, as the kernel reports them for each of
/// its threads.
@Suite @MainActor struct ConfinementTests {
  /// Lines of a thread's status by name.
  private func status(_ path: String) -> [String: String] {
    let text = (try? String(contentsOfFile: path, encoding: .utf8)) ?? ""
    return Dictionary(
      text.split(separator: "\n").compactMap { line in
        let parts = line.split(separator: ":", maxSplits: 1)
        return parts.count == 2 ? (String(parts[0]), parts[1].trimmingCharacters(in: .whitespaces)) : nil
      }
    ) { one, _ in one }
  }

  private func tasks(_ process: Int32) -> [[String: String]] {
    let folder = "/proc/\(process)/task"
    return ((try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []).map {
      status("\(folder)/\($0)/status")
    }
  }

  /// Seccomp filters of the test process, which child processes inherit.
  private var ownFilters: Int { Int(status("/proc/self/status")["Seccomp_filters"] ?? "") ?? 0 }

  /// Starts a command that waits for its standard input.
  private func reader(_ arguments: [String], _ environment: [String: String?] = ["RINGTAP_SECCOMP": nil])
    throws -> Program
  {
    try Program(Place.ringtap, arguments, environment: environment)
  }

  @Test(arguments: [["log", "show", "-"], ["log", "stats", "-"], ["decode"], ["ring", "decode"]])
  func filtersWhoReadsFiles(_ arguments: [String]) async throws {
    let program = try reader(arguments)
    defer { program.end() }
    try await eventually("each thread of \(arguments) has one filter more") {
      let tasks = tasks(program.identifier)
      return tasks.count > 1
        && tasks.allSatisfy {
          $0["Seccomp_filters"] == "\(ownFilters + 1)" && $0["Seccomp"] == "2" && $0["NoNewPrivs"] == "1"
        }
    }
  }

  /// RINGTAP_SECCOMP=off disables the filter, and nothing else.
  @Test func leavesTheFilterAwayWhereThatIsSaid() async throws {
    let program = try reader(["log", "stats", "-"], ["RINGTAP_SECCOMP": "off"])
    defer { program.end() }
    try await eventually("the signals have their thread") { tasks(program.identifier).count > 1 }
    for task in tasks(program.identifier) {
      #expect(task["Seccomp_filters"] == "\(ownFilters)" && task["NoNewPrivs"] == "1")
    }
  }

  /// CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER and CAP_FSETID are bits 0 … 4
  /// (`linux/capability.h`).
  @Test(.enabled(if: geteuid() == 0, "only root has what it may give up"))
  func leavesRootTheRightsToFilesAlone() async throws {
    let program = try reader(["log", "stats", "-"])
    defer { program.end() }
    let own = try #require(UInt64(status("/proc/self/status")["CapPrm"] ?? "", radix: 16))
    try await eventually("root's reader has the rights to files, and no other") {
      let tasks = tasks(program.identifier)
      return tasks.count > 1
        && tasks.allSatisfy { task in
          ["CapPrm", "CapEff"].allSatisfy { UInt64(task[$0] ?? "", radix: 16) == own & 0x1F }
        }
    }
  }
}

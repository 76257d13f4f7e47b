import BLELinux
import Foundation
import Testing

@Suite struct ProgramCodeTests {
  /// Less file-backed memory is mapped afterwards, and the program continues.
  @Test(.timeLimit(.minutes(1))) func givesBackCode() async {
    await #expect(processExitsWith: .success) {
      func residentFileKilobytes() -> Int {
        let line = Files.text(at: "/proc/self/status")?.split(separator: "\n").first {
          $0.hasPrefix("RssFile:")
        }
        return line.flatMap { Int($0.filter(\.isNumber)) } ?? 0
      }
      let before = residentFileKilobytes()
      ProgramCode.releaseOnce(after: .zero)
      while residentFileKilobytes() > before * 3 / 4 {}
    }
  }
}

import BLELinux
import BLEWire
import SensorSessions
import Synchronization
import Testing

@Suite struct NoteLimitTests {
  /// Twenty lines a minute are printed. The others are counted, and the count is printed after the minute or
  /// at the end.
  @Test func tellsTwentyAMinuteAndANumber() async throws {
    let loop = try EventLoop(
      name: "notes", clock: .virtual(from: ReceiveTime(nanoseconds: 1_700_000_000_000_000_000)))
    defer { loop.stop() }
    let told = Told()
    let limit = NoteLimit(on: loop) { line in told.lines.withLock { $0.append(line) } }
    // On the loop's thread, so that no virtual time passes meanwhile.
    let first = await loop.task {
      for number in 1...200 { limit.note("\(number)") }
      return told.lines.withLock { $0 }
    }.value
    #expect(first == (1...20).map { "\($0)" })
    await loop.task { try? await loop.wait(for: .seconds(61)) }.value
    let number = "… and 180 more in the last minute: links lost and restored"
    #expect(told.lines.withLock { $0.dropFirst(20) } == [number])
    await loop.task {
      limit.note("later")
      limit.flush()
    }.value
    #expect(told.lines.withLock { $0.dropFirst(20) } == [number, "later"])
    await loop.task {
      for number in 1...25 { limit.note("\(number)") }
      limit.flush()
    }.value
    #expect(
      told.lines.withLock { $0.last } == "… and 6 more in the last minute: links lost and restored"
    )
  }

  private final class Told: Sendable {
    let lines = Mutex<[String]>([])
  }
}

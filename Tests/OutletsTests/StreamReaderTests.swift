import BLELinux
import Synchronization
import TestKit
import Testing

@testable import Outlets

/// One reader's thread and its count of lines.
@Suite(.timeLimit(.minutes(1))) struct StreamReaderTests {
  /// A pipe that is full after some bytes, until it is opened.
  private final class FullPipe: LineSink {
    private let room: Atomic<Int>
    private let isOpen = Atomic(false)
    private let wake: WakeEvent
    private let waits = Atomic(0)

    init(byteCount: Int) throws {
      room = Atomic(byteCount)
      wake = try WakeEvent()
    }

    var isWaiting: Bool { waits.load(ordering: .sequentiallyConsistent) > 0 }

    func write(_ octets: Span<UInt8>) -> Int {
      let room = room.load(ordering: .relaxed)
      if room > 0 {
        let count = min(octets.count, room)
        self.room.store(room - count, ordering: .relaxed)
        return count
      }
      waits.add(1, ordering: .sequentiallyConsistent)
      while !isOpen.load(ordering: .sequentiallyConsistent) { wake.sleep { true } }
      return octets.count
    }

    func open() {
      isOpen.store(true, ordering: .sequentiallyConsistent)
      wake.interrupt()
    }

    func close() {}
  }

  /// Lines that the thread has taken from the queue are missed, too, until the reader has them completely.
  @Test func countsLinesThatAreBeingSent() async throws {
    let pipe = try FullPipe(byteCount: 25)
    let reader = try StreamReader(pipe)
    var batch = LineBatch()
    // Five lines of ten bytes: two fit, the third only in part.
    for _ in 0..<5 { batch.append(Array("123456789\n".utf8)) }
    reader.offer(batch)
    #expect(reader.missed == 5)
    try reader.start { _, _ in }
    try await eventually("the pipe is full") { pipe.isWaiting }
    #expect(reader.missed == 3)
    reader.offer(batch)
    #expect(reader.missed == 8)
    pipe.open()
    await reader.finish(within: .seconds(30))
    #expect(reader.missed == 0)
  }
}

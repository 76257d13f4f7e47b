import BLECore
public import BLEHost
import BLEPacketLog
public import BLESystem
import BLEWire
import Synchronization

/// A log of everything between a host and its controller, written on a thread of its own: btsnoop, or pcapng with
/// nanoseconds where its name ends so.
///
/// Put a `CapturingTransport` that fills `ring` around the transport. What the ring has no room for is counted, and
/// stands in the records' own field for it.
public final class PacketLogFile: Sendable {
  /// What is in the file.
  public struct Outcome: Hashable, Sendable {
    public var packets = 0
    /// Packets that our queue or the disk did not take.
    public var lost = 0
    public var failure: SystemError?
  }

  private static let queueByteCount = 1 << 22

  private let ring = RecordRing(byteCount: queueByteCount)
  private let wake: WakeEvent
  private let isStopping = Atomic<Bool>(false)
  private let state = Mutex(State())

  private struct State: Sendable {
    var outcome: Outcome?
    var waiter: CheckedContinuation<Outcome, Never>?
  }

  private init() throws(SystemError) { wake = try WakeEvent() }

  /// Creates the file and starts to write.
  ///
  /// - Throws: EEXIST where the file is there already: nothing recorded is ever overwritten.
  public static func start(_ path: String) async throws(HostError) -> PacketLogFile {
    let result: Result<PacketLogFile, SystemError> = await withCheckedContinuation { started in
      do throws(SystemError) {
        let log = try PacketLogFile()
        try SystemThread.start(named: "ringtap-log") { log.run(path, started) }
      } catch { started.resume(returning: .failure(error)) }
    }
    do throws(SystemError) { return try result.get() } catch { throw .system(error) }
  }

  /// The transport, with this log around it.
  public func capturing(_ transport: any PacketTransport) -> any PacketTransport {
    CapturingTransport(transport, into: ring, waking: wake)
  }

  /// Writes what waits and closes the file.
  public func finish() async -> Outcome {
    isStopping.store(true, ordering: .sequentiallyConsistent)
    return await withCheckedContinuation { continuation in
      let outcome = state.withLock { state in
        if state.outcome == nil { state.waiter = continuation }
        return state.outcome
      }
      if let outcome { continuation.resume(returning: outcome) }
      wake.signal()
    }
  }

  // MARK: The writer's thread

  private typealias Started = CheckedContinuation<Result<PacketLogFile, SystemError>, Never>

  private func run(_ path: String, _ started: Started) {
    do throws(SystemError) {
      var file = try OutputFile(creating: path, ifExists: .fail)
      var writer = CaptureLogFormat(path: path).writer
      try file.append { writer.start(into: &$0) }
      try file.flush()
      started.resume(returning: .success(self))
      let outcome = write(&file, &writer)
      let waiter = state.withLock { state in
        state.outcome = outcome
        return state.waiter
      }
      waiter?.resume(returning: outcome)
    } catch { started.resume(returning: .failure(error)) }
  }

  private func write(_ file: inout OutputFile, _ writer: inout PacketLogWriter) -> Outcome {
    var outcome = Outcome()
    var droppedBefore = 0
    var taken = 0
    var isLast = false
    while !isLast {
      // Read first: what came before the stop is drained below.
      isLast = isStopping.load(ordering: .sequentiallyConsistent)
      while ring.pop({ tag, time, dropped, packet in
        taken += 1
        // After a failure the rest is only counted.
        guard outcome.failure == nil else { return }
        var header = PacketRecordHeader()
        header.time = time
        header.type = HCIPacketType(rawValue: packet[0])
        header.direction = HCIDirection(rawValue: UInt8(truncatingIfNeeded: tag)) ?? .controllerToHost
        header.drops = UInt32(clamping: dropped - droppedBefore)
        droppedBefore = dropped
        let record = PacketRecord(header, packet: packet.extracting(1...))
        do throws(SystemError) { try file.append { writer.append(record, to: &$0) } } catch {
          outcome.failure = error
        }
      }) {}
      do throws(SystemError) { try file.flush() } catch { outcome.failure = outcome.failure ?? error }
      if !isLast { wake.sleep { ring.isEmpty && !isStopping.load(ordering: .sequentiallyConsistent) } }
    }
    // The header is the first unit.
    outcome.packets = file.writtenUnits - 1
    outcome.lost = taken - outcome.packets + ring.dropped
    return outcome
  }
}

/// Scheduling of an `EventLoop`'s thread. Everything is off by default: lower latency costs power or
/// processor time.
///
/// There is no busy polling of the socket (`SO_BUSY_POLL`). With that option the kernel polls the queue of
/// the network driver that last fed the socket, by its `sk_napi_id` (`sk_busy_loop` in
/// `include/net/busy_poll.h`). Bluetooth drivers have no NAPI queue, so the ID stays 0 and the option has no
/// effect. Use `spinMicroseconds` instead.
public struct LoopTuning: Hashable, Sendable {
  /// How long the thread polls after the last packet before it sleeps, in microseconds; 0 … 1,000,000. With 0
  /// it sleeps at once.
  public var spinMicroseconds = 0
  /// The only processor that the thread may run on; `nil` for any. Other threads may run on it too.
  public var processor: Int?
  /// SCHED_FIFO with this priority, 1 … 99: the thread runs before all ordinary threads. Requires
  /// CAP_SYS_NICE or an RLIMIT_RTPRIO of at least this value. With CAP_IPC_LOCK the process's memory also
  /// stays resident (`mlockall`).
  public var realTimePriority: Int?

  public init() {}

  public var isDefault: Bool { self == LoopTuning() }
}

/// How the thread of an `EventLoop` gets at its processor. Nothing of it is on unless it is asked for: what it buys in
/// latency somebody else pays, in power or in processor time.
///
/// There is no busy polling of the socket here (`SO_BUSY_POLL`): the kernel then polls the queue of the network driver that
/// last fed the socket, by its `sk_napi_id` (`sk_busy_loop` in `include/net/busy_poll.h`). Bluetooth drivers have no NAPI
/// queue, the number stays 0, and the option is taken and does nothing. `spinMicroseconds` is what there is instead.
public struct LoopTuning: Hashable, Sendable {
  /// How long the thread goes on looking after the last packet before it sleeps; 0: it sleeps at once. 0 … 1,000,000.
  public var spinMicroseconds = 0
  /// The only processor that the thread may run on; `nil`: any. Other threads may run there too.
  public var processor: Int?
  /// SCHED_FIFO with this priority, 1 … 99: the thread runs before all ordinary ones. Needs CAP_SYS_NICE, or an RLIMIT_RTPRIO
  /// as high. With CAP_IPC_LOCK the process's memory stays resident besides: `mlockall`.
  public var realTimePriority: Int?

  public init() {}

  /// Whether nothing is asked for.
  public var isDefault: Bool { self == LoopTuning() }
}

import ArgumentParser
import BLEHost
import BLELinux
import BLEStack
import BLEWire
import CommandKit
import Commands
import Glibc
import SensorSessions

/// `harness socket`: the receive path on an inherited datagram socket, for `Tools/Benchmarks`.
///
/// The other end is an ATT server that has a ring's raw stream at the handles that it reports in discovery.
struct SocketCommand: AsyncParsableCommand, ReachesDevice {
  static let configuration = CommandConfiguration(
    commandName: "socket",
    abstract: "Receive from an inherited socket.")

  @Option(help: "The descriptor of the socket.", in: NumberRange(0...Int32.max))
  var descriptor: Int32 = 3

  @OptionGroup var radio: AdapterOptions
  @OptionGroup var link: LinkOptions
  @OptionGroup var choice: DeviceOptions
  @OptionGroup var options: BenchOptions
  @OptionGroup var thread: ReceiveThreadOptions

  @Option(help: "Record a complete capture into this directory instead of measuring latencies.")
  var output: String?

  func run() async throws {
    let flags = fcntl(descriptor, F_GETFL)
    guard flags >= 0, fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) >= 0 else {
      throw Failure("descriptor \(descriptor) is not open")
    }
    let loop = try failing { () throws(HostError) in try EventLoop.start(tuning: thread.tuning) }
    let adapter = SocketAdapter(FileDescriptor(owning: descriptor), on: loop)
    if let output {
      try await CaptureCost.measure(.any, adapter, options.count ?? 10_000, output).show(json: true)
    } else {
      try await measure(adapter)
    }
    await adapter.close()
  }

  private func measure(_ adapter: SocketAdapter) async throws {
    let begin = SystemClock.monotonic()
    let connection = try await failing { () async throws(HostError) in
      try await adapter.connect(to: .any, asking: LinkRequest(), timeout: .seconds(10), tap: nil)
    }
    let run = BenchRun(device: device, address: .any, options: options)
    try await run.measure(adapter, connection, since: begin).show(json: true)
    await connection.close()
  }
}

/// An adapter with a connected datagram socket instead of a radio. Each datagram is one ATT PDU.
///
/// It uses the receive path of the `raw` mode without the kernel's Bluetooth, so that the cost of that path
/// can be measured.
actor SocketAdapter: Adapter {
  nonisolated let loop: EventLoop
  nonisolated var unownedExecutor: UnownedSerialExecutor { loop.executor }
  nonisolated let name = "socket"
  nonisolated let mode = "socket"
  let malformed = 0
  var hooks: [any AdapterHook] = []

  private var descriptor: FileDescriptor?

  init(_ descriptor: consuming FileDescriptor, on loop: EventLoop) {
    self.descriptor = consume descriptor
    self.loop = loop
  }

  func beginScan(
    _ kind: ScanKind, timing: ScanTiming, duplicates: DuplicateFilter, _ sink: @escaping ReportSink
  ) async throws(HostError) { throw Self.noRadio }

  func endScan() async throws(HostError) {}

  /// Connects. Works only once. The requested link parameters are ignored.
  func link(
    to peer: DeviceAddress, asking request: LinkRequest, timeout: Duration, tap: PacketTap?
  ) async throws(HostError) -> Connection {
    guard let descriptor = descriptor.take() else { throw Self.noRadio }
    return try await Connection.adopt(descriptor, peer: peer, on: loop, tap: tap)
  }

  func change(_ connection: Connection, to request: LinkRequest) async {}

  func facts(of connection: Connection) async throws(HostError) -> LinkFacts { throw Self.noRadio }

  func release() async { descriptor = nil }

  private static let noRadio = HostError.unsuitable(
    "not available: a socket is a single link, not a radio")
}

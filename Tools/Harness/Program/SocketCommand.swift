import ArgumentParser
import BLEHost
import BLELinux
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

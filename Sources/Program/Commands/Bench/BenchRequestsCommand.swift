import ArgumentParser
import BLEEmulation
import BLEHost
import BLELinux
import BLEStack
import BLEWire
import CommandKit
import JSONText

/// `ringtap bench requests`: measures reads and writes.
struct BenchRequestsCommand: AsyncParsableCommand, ReachesDevice {
  static let configuration = CommandConfiguration(
    commandName: "requests",
    abstract: "Measure reads, and writes with and without response.",
    discussion: """
      Reads the characteristic, and with --write writes it, --count times each, one after the other. The \
      time of writes without response ends with the response to a read that follows them, which proves that \
      the device has received all of them. The default is the device's name, or a characteristic of an \
      emulated source for this purpose.

      EXAMPLES
        ringtap bench requests --transport virtual:source --write
        ringtap bench requests 70:CB:0D:00:A1:B2 --count 100 --json | jq .readNs.p99
      """)

  @OptionGroup var radio: AdapterOptions
  @OptionGroup var link: LinkOptions
  @OptionGroup var choice: DeviceOptions

  @Argument(help: "The device, such as 70:CB:0D:00:A1:B2; not needed with --transport virtual:…")
  var address: String?

  @Option(help: CharacteristicArgument.help)
  var characteristic: CharacteristicArgument?

  @Flag(help: "Write too. The device keeps the last value written.")
  var write = false

  @Option(help: "Number of reads, and of writes of each kind.", in: .count)
  var count = 1000

  @Option(help: "Bytes in each value written.", in: NumberRange(0...512, "bytes"))
  var payload = 20

  @Flag(help: "Print one JSON object.")
  var json = false

  /// Durations of the reads and writes.
  private struct Outcome: Sendable {
    var mtu = 0
    var reads = Durations()
    var readSeconds = 0.0
    var writes: Durations?
    var writeSeconds = 0.0
    /// Duration of the writes without response; `nil` if the characteristic does not support such writes.
    var commandSeconds: Double?
  }

  func run() async throws {
    let address = try BenchTarget.address(address, device)
    let (named, write, count, payload) = (characteristic, write, count, payload)
    let outcome = try await device.withConnection(to: address) { connection in
      let database = try await failing { () async throws(GATTError) in try await connection.discover() }
      let target: GATTDatabase.Characteristic
      if let named {
        target = try await named.characteristic(connection, to: .read)
      } else if let found = database.characteristic(EmulatedSource.store)
        ?? database.characteristic(BluetoothUUID(0x2A00))
      {
        target = found
      } else {
        throw Failure("\(address) has no device name to read; choose a characteristic with --characteristic")
      }
      return try await failing { () async throws(GATTError) in
        try await Self.measure(connection, target, write: write, count, payload)
      }
    }
    try show(outcome)
  }

  private static func measure(
    _ connection: Connection, _ target: GATTDatabase.Characteristic, write: Bool, _ count: Int, _ payload: Int
  ) async throws(GATTError) -> Outcome {
    var outcome = Outcome()
    outcome.mtu = await connection.mtu
    let handle = target.valueHandle
    defer { if Console.isErrorTerminal { Console.progress("") } }
    (outcome.reads, outcome.readSeconds) = try await repeating(count, "reads") { () async throws(GATTError) in
      _ = try await connection.read(handle)
    }
    guard write else { return outcome }
    let value = [UInt8](repeating: 0x5A, count: payload)
    if target.properties.contains(.write) {
      let (writes, seconds) = try await repeating(count, "writes") { () async throws(GATTError) in
        try await connection.write(value, to: handle)
      }
      (outcome.writes, outcome.writeSeconds) = (writes, seconds)
    }
    if target.properties.contains(.writeWithoutResponse), payload <= outcome.mtu - 3 {
      Console.progress("\(count) writes without response …")
      let begin = SystemClock.monotonic()
      for _ in 0..<count { try await connection.writeWithoutResponse(value, to: handle) }
      _ = try await connection.read(handle)
      outcome.commandSeconds = seconds(since: begin)
    }
    return outcome
  }

  /// Calls `body` repeatedly, measures each call, and shows the progress on a terminal.
  private static func repeating(
    _ count: Int, _ what: String, _ body: () async throws(GATTError) -> Void
  ) async throws(GATTError) -> (Durations, Double) {
    var durations = Durations()
    let begin = SystemClock.monotonic()
    var last = begin
    var shown: MonotonicTime?
    for index in 0..<count {
      if shown.map({ last.nanoseconds - $0.nanoseconds >= 1_000_000_000 }) ?? true {
        shown = last
        Console.progress("\(index) of \(count) \(what)   (Ctrl-C ends)")
        last = SystemClock.monotonic()
      }
      try await body()
      let now = SystemClock.monotonic()
      durations.add(now.nanoseconds - last.nanoseconds)
      last = now
    }
    return (durations, Double(last.nanoseconds - begin.nanoseconds) / 1e9)
  }

  private static func seconds(since begin: MonotonicTime) -> Double {
    Double(SystemClock.monotonic().nanoseconds - begin.nanoseconds) / 1e9
  }

  // MARK: Lines

  private func show(_ outcome: Outcome) throws(Console.WriteError) {
    if json { try Console.json { encode(outcome, into: &$0) } } else { try Console.print(text(outcome)) }
  }

  private func rate(_ seconds: Double) -> Double { seconds > 0 ? Double(count) / seconds : 0 }

  private func text(_ outcome: Outcome) -> String {
    var lines = [
      "\(count) of each, MTU \(outcome.mtu)", "",
      String(repeating: " ", count: 16) + BenchText.padded("per second") + Durations.Summary.heading,
    ]
    func add(_ name: String, _ seconds: Double, _ durations: Durations?) {
      let pad = String(repeating: " ", count: max(1, 16 - name.count))
      lines.append(name + pad + BenchText.column(rate(seconds)) + (durations?.summary?.columns ?? ""))
    }
    add("read", outcome.readSeconds, outcome.reads)
    if let writes = outcome.writes { add("write", outcome.writeSeconds, writes) }
    if let seconds = outcome.commandSeconds { add("no response", seconds, nil) }
    return lines.joined(separator: "\n")
  }

  private func encode(_ outcome: Outcome, into line: inout JSONLine) {
    line.member("count", count)
    line.member("mtu", outcome.mtu)
    line.member("readsPerSecond", rate(outcome.readSeconds))
    outcome.reads.summary?.encode("readNs", into: &line)
    if let summary = outcome.writes?.summary {
      line.member("payloadOctets", payload)
      line.member("writesPerSecond", rate(outcome.writeSeconds))
      summary.encode("writeNs", into: &line)
    }
    if let seconds = outcome.commandSeconds { line.member("writesWithoutResponsePerSecond", rate(seconds)) }
  }
}

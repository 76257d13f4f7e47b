import ArgumentParser
import BLECore
import BLEHost
import BLEStack
import BLESystem

/// How to reach the radio, on every command that does.
struct AdapterOptions: ParsableArguments {
  enum Mode: String, CaseIterable, ExpressibleByArgument {
    case auto, raw
  }

  @Option(help: "The adapter, such as hci0; the first that is up if not given.")
  var adapter: String?

  @Option(help: "How to reach the radio: raw is the HCI raw channel and the kernel's L2CAP socket.")
  var mode = Mode.auto

  @Flag(name: [.short, .long], help: "Say more on standard error: malformed packets, parameters in force.")
  var verbose = false

  /// Finds the adapter and says how it is used.
  func find() throws -> AdapterInfo {
    let info = try failing { () throws(HostError) in try Adapter.find(adapter) }
    if mode == .auto {
      let daemon = ProcessFacts.processID(named: "bluetoothd")
      Console.note(
        "raw mode on \(info.name)"
          + (daemon == nil ? "" : "; bluetoothd is running: stop its scans and disconnect the device there"))
    }
    return info
  }
}

/// A device to connect to.
struct DeviceOptions: ParsableArguments {
  @OptionGroup var radio: AdapterOptions

  @Option(help: "The kind of the device's address: public or random.")
  var addressType = AddressKind.public

  @Option(help: ArgumentHelp("How long the device may take to answer.", valueName: "seconds"))
  var timeout = 20.0

  enum AddressKind: String, CaseIterable, ExpressibleByArgument {
    case `public`, random

    var type: AddressType { self == .public ? .public : .random }
  }

  func validate() throws {
    guard timeout > 0, timeout <= 3600 else { throw ValidationError("--timeout must be 0 … 3600 seconds") }
  }

  func parse(_ text: String) throws -> DeviceAddress {
    guard let address = DeviceAddress(text, type: addressType.type) else {
      throw ValidationError("'\(text)' is no device address; it looks like 70:CB:0D:00:A1:B2")
    }
    return address
  }

  /// Connects, runs `body`, and closes the channel whatever happens. Ctrl-C cancels `body`.
  func withConnection<Value: Sendable>(
    to address: DeviceAddress, _ body: @escaping @Sendable (GATTClient) async throws -> Value
  ) async throws -> Value {
    let adapter = try radio.find()
    let isVerbose = radio.verbose
    let timeout = Duration.seconds(timeout)
    return try await Interruption.cancelling {
      let loop = try failing { () throws(HostError) in try EventLoop.start() }
      let connection = try await failing { () async throws(HostError) in
        try await Connection.open(to: address, from: adapter.address, on: loop, timeout: timeout)
      }
      let client = GATTClient(connection)
      do {
        try await failing { () async throws(GATTError) in try await client.exchangeMTU() }
        let value = try await body(client)
        await Self.close(connection, isVerbose)
        return value
      } catch {
        await Self.close(connection, isVerbose)
        throw error
      }
    }
  }

  private static func close(_ connection: Connection, _ isVerbose: Bool) async {
    let statistics = await connection.statistics
    if isVerbose {
      Console.note(
        "MTU \(await connection.mtu), \(statistics.received) PDUs received, \(statistics.sent) sent, "
          + "\(statistics.malformed) malformed, \(statistics.kernelQueueDrops) dropped by the kernel")
      if let error = statistics.lastMalformed { Console.note("last malformed: \(error)") }
    }
    await connection.close()
  }
}

/// Turns the libraries' errors into the one line that a command ends with.
func failing<Value, E: Error>(_ body: () throws(E) -> Value) throws -> Value {
  do throws(E) { return try body() } catch { throw Failure(error) }
}

func failing<Value, E: Error>(
  _ body: () async throws(E) -> Value
) async throws -> Value {
  do throws(E) { return try await body() } catch {
    try Task.checkCancellation()
    throw Failure(error)
  }
}

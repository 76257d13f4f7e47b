import ArgumentParser
import BLEEmulation
import BLEHost
import BLESystem

/// An adapter, and what must live as long as it.
struct Radio: Sendable {
  let adapter: any Adapter
  /// The controller at the other end of a virtual transport.
  let emulation: ControllerAttachment?

  /// A controller with one emulated peripheral, inside this process.
  static func virtual(_ peripheral: String, _ loop: EventLoop) async throws -> Radio {
    guard peripheral == "ring" else {
      throw ValidationError("there is no virtual peripheral '\(peripheral)'; there is virtual:ring")
    }
    var configuration = EmulatedRing.Configuration()
    // Fast enough to be worth recording, far from what the link allows.
    configuration.notificationsPerSecond = 300
    let controller = VirtualController(peripherals: [EmulatedRing(configuration)])
    let emulation: ControllerAttachment
    let adapter: HostAdapter
    do {
      var pair = try ControllerPort.pair()
      emulation = try await ControllerAttachment.attach(controller, to: pair.takeController(), .datagrams)
      adapter = try await HostAdapter.open(
        try loop.transport(over: pair.takeHost(), .datagrams), name: "virtual:ring", on: loop)
    } catch { throw Failure(error) }
    return Radio(adapter: adapter, emulation: emulation)
  }

  func close() async {
    await adapter.close()
    await emulation?.detach()
  }
}

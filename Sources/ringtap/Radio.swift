import ArgumentParser
import BLEEmulation
import BLEHost
import BLESystem

/// An adapter, and what must live as long as it.
struct Radio: Sendable {
  let adapter: any Adapter
  /// The controller at the other end of a virtual transport.
  let emulation: ControllerAttachment?

  /// A controller with emulated peripherals, inside this process.
  static func virtual(_ description: String, _ loop: EventLoop) async throws -> Radio {
    let specification: VirtualPeripheralSpecification
    do throws(VirtualPeripheralSpecification.ParseError) {
      specification = try VirtualPeripheralSpecification(parsing: description)
    } catch { throw ValidationError(error.description) }
    do {
      var pair = try ControllerPort.pair()
      let emulation = try await ControllerAttachment.attach(
        specification.makeController(), to: pair.takeController(), .datagrams)
      let adapter = try await HostAdapter.open(
        try loop.transport(over: pair.takeHost(), .datagrams), name: "virtual:\(description)", on: loop)
      return Radio(adapter: adapter, emulation: emulation)
    } catch { throw Failure(error) }
  }

  func close() async {
    await adapter.close()
    await emulation?.detach()
  }
}

import ArgumentParser
package import BLEEmulation
package import BLEHost
package import BLELinux
package import BLEReplay
import BLESecurity
package import BLEWire
package import Recording
import RingTap
package import SensorSessions

/// An adapter, and what must live as long as it.
package struct Radio: Sendable {
  package var adapter: any Adapter
  /// The controller at the other end of a virtual transport.
  package var emulation: ControllerAttachment?
  /// What the host and its controller say to each other.
  package var log: PacketLogFile?
  /// A log in place of a controller.
  package var replay: ReplayTransport?

  /// Looks for a sensor, and says which it found. Of a log of one link there is nothing to look for: it is that device.
  package func find(
    _ search: SensorSearch, named name: String?, within timeout: Duration, isVerbose: Bool
  ) async throws(HostError) -> DeviceAddress {
    if let peer = replay?.peer, name == nil { return peer }
    let found = try await SensorFinder.find(search, named: name, on: adapter, within: timeout) {
      Console.note(search: $0, always: isVerbose)
    }
    Console.note(found: found)
    return found.address
  }

  /// Our own host on the controller that this names.
  ///
  /// - Parameters:
  ///   - path: of the packet log, if there is to be one.
  ///   - keys: what becomes of keys in it.
  package static func exclusive(
    _ specification: TransportSpecification, log path: String?,
    keys: CapturingTransport.Keys = .concealed, _ loop: EventLoop
  ) async throws -> Radio {
    if case .virtual(let description) = specification {
      do throws(VirtualPeripheralSpecification.ParseError) {
        _ = try VirtualPeripheralSpecification(parsing: description)
      } catch { throw ValidationError(error.description) }
    }
    // Without libcrypto, a protected device pairs in the legacy way, and `pair` says why it cannot do better.
    let controller = try await failing { () async throws(HostError) in
      try await ControllerPath.open(specification, on: loop) {
        try? P256KeyPair.maker()
      } waiting: {
        Console.note("waiting for a controller at \($0)")
      }
    }
    controller.replay?.whenOver {
      Interruption.interrupt(
        because: "the log was over before the command was done; is what it asks for in the log?")
    }
    var log: PacketLogFile?
    do throws(HostError) {
      var transport = controller.transport
      if let path {
        let file = try await PacketLogFile.start(
          path,
          announcing: RunningLog.Origin(adapter: specification.description, mode: "exclusive")
        ) { Console.note(failure: "the packet log takes nothing more: \($0)") }
        transport = file.capturing(transport, keys: keys)
        if keys == .logged {
          Console.note(
            "warning: \(path) will hold keys: whoever has it can listen to the links of these devices")
        }
        log = file
      }
      let adapter = try await HostAdapter.open(transport, name: specification.description, on: loop)
      return Radio(
        adapter: adapter, emulation: controller.emulation, log: log, replay: controller.replay)
    } catch {
      await controller.emulation?.detach()
      _ = await log?.finish()
      throw Failure(error)
    }
  }

  /// Nothing can be asked of the adapter afterwards: its thread ends.
  package func close() async {
    // A controller that does not let go is left to whoever takes it next.
    try? await Interruption.leaving(after: Interruption.closingPatience) { [adapter, emulation] in
      await adapter.close()
      await emulation?.detach()
    }
    if let replay { for note in ReplayText.notes(of: replay) { Console.note(note) } }
    defer { adapter.loop.stop() }
    guard let outcome = await log?.finish() else { return }
    if let failure = outcome.failure { Console.note(failure: "the packet log is cut: \(failure)") }
    if outcome.lost > 0 { Console.note("\(outcome.lost) packets are missing in the packet log") }
  }
}

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

/// An adapter, and the objects that must live as long as the adapter.
package struct Radio: Sendable {
  package var adapter: any Adapter
  /// The controller at the other end of a virtual transport.
  package var emulation: ControllerAttachment?
  /// The log of packets between the host and its controller.
  package var log: PacketLogFile?
  /// A log that is replayed in place of a controller.
  package var replay: ReplayTransport?

  /// Finds a sensor and prints its address. In a replay of a single link there is no scan: the result is the
  /// address of that link's peer.
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

  /// Runs ringtap's own host on the specified controller.
  ///
  /// - Parameters:
  ///   - path: the packet log, or `nil`.
  ///   - keys: whether keys are kept in the log.
  package static func exclusive(
    _ specification: TransportSpecification, log path: String?,
    keys: CapturingTransport.Keys = .concealed, _ loop: EventLoop
  ) async throws -> Radio {
    if case .virtual(let description) = specification {
      do throws(VirtualPeripheralSpecification.ParseError) {
        _ = try VirtualPeripheralSpecification(parsing: description)
      } catch { throw ValidationError(error.description) }
    }
    // Without libcrypto, the host uses legacy pairing, and `pair` prints the reason.
    let controller = try await failing { () async throws(HostError) in
      try await ControllerPath.open(specification, on: loop) {
        try? P256KeyPair.maker()
      } waiting: {
        Console.note("waiting for a controller at \($0)")
      }
    }
    controller.replay?.whenOver {
      Interruption.interrupt(
        because: "the log ended before the command finished; check that it contains what the command asks for"
      )
    }
    var log: PacketLogFile?
    do throws(HostError) {
      var transport = controller.transport
      if let path {
        let file = try await PacketLogFile.start(
          path,
          announcing: RunningLog.Origin(adapter: specification.description, mode: "exclusive")
        ) { Console.note(failure: "the packet log stopped: \($0)") }
        transport = file.capturing(transport, keys: keys)
        if keys == .logged {
          Console.note(
            "warning: \(path) will contain keys that decrypt the links of these devices; keep it private")
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

  /// Closes the adapter and ends its thread. The adapter cannot be used afterwards.
  package func close() async {
    // A controller that does not respond stays open for the next program.
    try? await Interruption.leaving(after: Interruption.closingPatience) { [adapter, emulation] in
      await adapter.close()
      await emulation?.detach()
    }
    if let replay { for note in ReplayText.notes(of: replay) { Console.note(note) } }
    defer { adapter.loop.stop() }
    guard let outcome = await log?.finish() else { return }
    if let failure = outcome.failure { Console.note(failure: "the packet log is incomplete: \(failure)") }
    if outcome.lost > 0 {
      Console.note("\(counted(outcome.lost, "packet is", "packets are")) missing from the packet log")
    }
  }
}

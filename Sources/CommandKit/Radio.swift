import ArgumentParser
package import BLEEmulation
package import BLEHost
package import BLELinux
package import BLEReplay
import BLESecurity
package import Recording

/// An adapter, and what must live as long as it.
package struct Radio: Sendable {
  package var adapter: any Adapter
  /// The controller at the other end of a virtual transport.
  package var emulation: ControllerAttachment?
  /// What the host and its controller say to each other.
  package var log: PacketLogFile?
  /// A log in place of a controller.
  package var replay: ReplayTransport?

  /// Our own host on the controller that this names.
  ///
  /// - Parameters:
  ///   - path: of the packet log, if there is to be one.
  ///   - keys: what becomes of keys in it.
  package static func exclusive(
    _ specification: TransportSpecification, log path: String?,
    keys: CapturingTransport.Keys = .concealed, _ loop: EventLoop
  ) async throws -> Radio {
    var emulation: ControllerAttachment?
    var log: PacketLogFile?
    var replay: ReplayTransport?
    do {
      var transport: any PacketTransport
      switch specification {
      case .virtual(let description): (transport, emulation) = try await virtual(description, loop)
      case .replay(let source):
        let played = try ReplayTransport(source, on: loop)
        played.whenOver { Interruption.interrupt() }
        transport = played
        replay = played
      case .tcpServer, .pseudoTerminal:
        let server = try StreamServer(specification) { Console.note("waiting for a controller at \($0)") }
        transport = try loop.transport(over: try await server.next().take(), .stream)
      default: transport = try specification.open(on: loop)
      }
      if let path {
        let file = try await PacketLogFile.start(
          path,
          announcing: RunningLog.Origin(adapter: specification.description, mode: "exclusive"))
        transport = file.capturing(transport, keys: keys)
        if keys == .logged {
          Console.note(
            "warning: \(path) will hold keys: whoever has it can listen to the links of these devices")
        }
        log = file
      }
      let adapter = try await HostAdapter.open(transport, name: specification.description, on: loop)
      return Radio(adapter: adapter, emulation: emulation, log: log, replay: replay)
    } catch {
      await emulation?.detach()
      _ = await log?.finish()
      guard let error = error as? HostError else { throw error }
      throw Failure(error)
    }
  }

  /// A controller with emulated peripherals, inside this process, and the way to it.
  private static func virtual(
    _ description: String, _ loop: EventLoop
  ) async throws -> (any PacketTransport, ControllerAttachment) {
    let specification: VirtualPeripheralSpecification
    do throws(VirtualPeripheralSpecification.ParseError) {
      specification = try VirtualPeripheralSpecification(parsing: description)
    } catch { throw ValidationError(error.description) }
    var pair = try ControllerPort.pair()
    // Without libcrypto, a protected device pairs in the legacy way, and `pair` says why it cannot do better.
    let emulation = try await ControllerAttachment.attach(
      specification.makeController(keyPairs: try? P256KeyPair.maker()), to: pair.takeController(), .datagrams)
    return (try loop.transport(over: pair.takeHost(), .datagrams), emulation)
  }

  package func close() async {
    await adapter.close()
    await emulation?.detach()
    if let replay { for note in ReplayText.notes(of: replay) { Console.note(note) } }
    guard let outcome = await log?.finish() else { return }
    if let failure = outcome.failure { Console.note("the packet log is cut: \(failure)") }
    if outcome.lost > 0 { Console.note("\(outcome.lost) packets are missing in the packet log") }
  }
}

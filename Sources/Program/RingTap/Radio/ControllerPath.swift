package import BLEEmulation
package import BLEHost
package import BLELinux
package import BLEReplay
package import BLEStack

/// The way to a controller that is ours alone, and what must live as long as it.
///
/// `Radio` and the commands of the program put their own host at its end.
package struct ControllerPath: Sendable {
  /// Carries the packets.
  package let transport: any PacketTransport
  /// The controller at the other end of a virtual transport.
  package private(set) var emulation: ControllerAttachment?
  /// A log in place of a controller.
  package private(set) var replay: ReplayTransport?

  /// Opens what the specification names.
  ///
  /// - Parameters:
  ///   - specification: any transport, `virtual:`, `replay:` and those that wait for a controller included.
  ///   - loop: has the receive thread.
  ///   - keyPairs: asked for where devices are emulated, for Secure Connections; without, a protected
  ///     one pairs in the legacy way.
  ///   - waiting: hears where a controller is waited for.
  /// - Throws: `unsuitable` for virtual peripherals or a log that are none; else as `TransportSpecification.open`.
  package static func open(
    _ specification: TransportSpecification, on loop: EventLoop,
    keyPairs: () -> (@Sendable () -> any P256KeyAgreement)? = { nil },
    waiting: (String) -> Void = { _ in }
  ) async throws(HostError) -> ControllerPath {
    switch specification {
    case .virtual(let description):
      let peripherals: VirtualPeripheralSpecification
      do throws(VirtualPeripheralSpecification.ParseError) {
        peripherals = try VirtualPeripheralSpecification(parsing: description)
      } catch { throw .unsuitable(error.description) }
      return try await emulating(peripherals.makeController(keyPairs: keyPairs()), on: loop)
    case .replay(let source):
      let replay = try ReplayTransport(source, on: loop)
      return ControllerPath(transport: replay, replay: replay)
    case .tcpServer, .pseudoTerminal:
      let server = try StreamServer(specification, opened: waiting)
      return ControllerPath(transport: try loop.transport(over: try await server.next().take(), .stream))
    case .hciSocket, .serial, .tcpClient, .unix:
      return ControllerPath(transport: try specification.open(on: loop))
    }
  }

  /// Puts a virtual controller at the other end, in this process.
  package static func emulating(
    _ controller: sending VirtualController, on loop: EventLoop
  ) async throws(HostError) -> ControllerPath {
    var pair: ControllerPort.PacketPair
    do throws(SystemError) { pair = try ControllerPort.pair() } catch { throw .system(error) }
    let emulation: ControllerAttachment
    do throws(SystemError) {
      emulation = try await ControllerAttachment.attach(controller, to: pair.takeController(), .datagrams)
    } catch { throw .system(error) }
    return ControllerPath(
      transport: try loop.transport(over: pair.takeHost(), .datagrams), emulation: emulation)
  }
}

package import BLEEmulation
package import BLEHost
package import BLELinux
package import BLEReplay
package import BLEStack

/// A transport to a controller that this program uses exclusively, and the objects that must live as long as
/// the transport.
///
/// `Radio` and the program's commands attach ringtap's own host to the transport.
package struct ControllerPath: Sendable {
  /// The transport that carries the packets.
  package let transport: any PacketTransport
  /// The controller at the other end of a virtual transport.
  package private(set) var emulation: ControllerAttachment?
  /// A log that is replayed instead of a controller.
  package private(set) var replay: ReplayTransport?

  /// Opens the specified transport.
  ///
  /// - Parameters:
  ///   - specification: any transport, including `virtual:`, `replay:` and servers that wait for a
  ///     controller.
  ///   - loop: the event loop that provides the receive thread.
  ///   - keyPairs: called for emulated devices to enable Secure Connections. If it returns `nil`, devices
  ///     that require pairing use legacy pairing.
  ///   - waiting: called before waiting for a controller to connect.
  /// - Throws: `unsuitable` for an invalid peripheral or log; otherwise the errors of
  ///   `TransportSpecification.open`.
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

  /// Attaches a virtual controller in this process.
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

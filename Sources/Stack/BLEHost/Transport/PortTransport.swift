public import BLELinux
import BLEStack
import BLEWire

/// A transport over a descriptor: user channel, serial port or socket.
final class PortTransport: PacketTransport, EventSource, @unchecked Sendable {
  // No lock: used on the event loop's thread only.

  private let port: PacketPort
  private var framer = H4Framer(from: .controllerToHost)
  private var client: TransportClient?

  init(
    _ descriptor: consuming FileDescriptor, _ framing: PacketPort.Framing, _ loop: EventLoop
  ) throws(SystemError) {
    port = try PacketPort(descriptor, framing, loop)
  }

  var kernelQueueDrops: Int { port.kernelQueueDrops }
  var garbage: Int { framer.garbage }

  func open(_ client: TransportClient) throws(SystemError) {
    self.client = client
    try port.open(for: self)
  }

  func send(_ packet: Span<UInt8>) throws(SystemError) { try port.send(packet) }

  func close() {
    client = nil
    port.close()
  }

  // MARK: The receive thread

  var deadline: MonotonicTime? { client?.deadline() }

  func expired(now: MonotonicTime) { client?.expired(now) }

  func stopped() { client?.lost() }

  func ready(_ readiness: Readiness) {
    guard let client else { return }
    var isOpen = true
    do throws(SystemError) {
      if !readiness.isDisjoint(with: .writable) { try port.flush() }
      isOpen = try port.drain { octets, time, stamp in
        if port.framing == .stream {
          framer.receive(octets) { client.received($0, time, false) }
        } else {
          client.received(octets, time, stamp == .kernel)
        }
      }
    } catch { isOpen = false }
    if !isOpen { client.lost() }
    client.settled()
  }
}

extension TransportSpecification {
  /// Opens the port.
  ///
  /// - Throws: `adapterBusy`, `notPermitted`, `noAdapter`, or the system's error for the port; `unsuitable`
  ///   for a server, a pseudo-terminal, a virtual controller or a replay, which are opened elsewhere.
  public func open(on loop: EventLoop) throws(HostError) -> any PacketTransport {
    do throws(SystemError) {
      switch self {
      case .hciSocket(let index):
        return try PortTransport(try ControllerPort.userChannel(index: index), .datagrams, loop)
      case .serial(let path, let baud, let hardwareFlow):
        return try PortTransport(
          try ControllerPort.serial(path: path, baud: baud, flow: hardwareFlow ? .hardware : .none), .stream,
          loop)
      case .tcpClient(let host, let port):
        return try PortTransport(try ControllerPort.tcp(host: host, port: port), .stream, loop)
      case .unix(let path): return try PortTransport(try ControllerPort.unix(path: path), .stream, loop)
      case .tcpServer, .pseudoTerminal, .virtual, .replay: break
      }
    } catch { throw HostError(opening: description, error) }
    switch self {
    case .replay: throw .unsuitable("\(self): a log is opened by ReplayTransport")
    case .virtual: throw .unsuitable("\(self): a virtual peripheral is attached by its emulation")
    default: throw .unsuitable("\(self): wait for the peer first, then take the stream over")
    }
  }
}

extension EventLoop {
  /// Returns a transport over an open descriptor.
  ///
  /// - Parameter framing: whether a read returns a packet or part of a stream.
  package func transport(
    over descriptor: consuming FileDescriptor, _ framing: PacketPort.Framing
  ) throws(HostError) -> any PacketTransport {
    do throws(SystemError) { return try PortTransport(descriptor, framing, self) } catch {
      throw HostError(error)
    }
  }
}

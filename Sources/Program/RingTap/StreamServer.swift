package import BLEHost
package import BLELinux
import Synchronization

/// Waits for peers of a byte-stream transport: TCP, a UNIX socket, or the other end of a pseudo-terminal.
package final class StreamServer: Sendable {
  /// A peer's descriptor, passed from the thread that accepted it to the waiting task.
  package final class Peer: Sendable {
    private let descriptor: Mutex<FileDescriptor?>

    init(_ descriptor: consuming FileDescriptor) { self.descriptor = Mutex(consume descriptor) }

    /// Returns the descriptor. Must be called only once.
    package func take() -> FileDescriptor {
      guard let descriptor = descriptor.withLock({ $0.take() }) else { preconditionFailure("taken twice") }
      return descriptor
    }
  }

  private final class Listener: Sendable {
    let descriptor: FileDescriptor
    init(_ descriptor: consuming FileDescriptor) { self.descriptor = descriptor }
  }

  private let listener: Listener?
  private let terminal: Peer?

  /// Opens the port and passes its name to `opened`. The name of a pseudo-terminal is known only after
  /// opening.
  package init(_ transport: TransportSpecification, opened: (String) -> Void) throws(HostError) {
    var name = transport.description
    do throws(SystemError) {
      switch transport {
      case .tcpServer(let host, let port):
        listener = Listener(try ControllerPort.listen(host: host, port: port))
        terminal = nil
      case .unix(let path):
        listener = Listener(try ControllerPort.listen(path: path))
        terminal = nil
      case .pseudoTerminal:
        listener = nil
        terminal = Peer(try ControllerPort.pseudoTerminal(name: &name))
      default: throw SystemError(call: "listen \(name)", number: SystemError.notSupported)
      }
    } catch { throw .system(error) }
    opened(name)
  }

  /// Waits for the next peer. A pseudo-terminal has one peer, which is returned immediately.
  ///
  /// - Throws: `system` if no peer can be accepted, or if the task is cancelled.
  package func next() async throws(HostError) -> Peer {
    guard let listener else {
      guard let terminal else { preconditionFailure("a port listens or is a terminal") }
      return terminal
    }
    let peer = OneShot<Result<Peer, SystemError>>()
    do throws(SystemError) {
      // A separate thread calls accept(), because it would block a thread of the pool.
      try SystemThread.start(named: "ringtap-accept") {
        do throws(SystemError) {
          peer.set(.success(Peer(try ControllerPort.accept(listener.descriptor))))
        } catch { peer.set(.failure(error)) }
      }
    } catch { throw .system(error) }
    let result = await withTaskCancellationHandler {
      await peer.value()
    } onCancel: {
      // Makes the blocked accept() return.
      listener.descriptor.shutDown()
    }
    do throws(SystemError) { return try result.get() } catch { throw .system(error) }
  }
}

import BLEHost
import BLELinux
import BLEWire
import CommandKit
import JSONText
import Recording
import RingTap
import Synchronization

/// Keeps a daemon running on the configured radio, and reopens the radio when it is lost. Reloads the
/// configuration, serves the status, and reports to the service manager.
package actor DaemonSupervisor {
  private let file: String
  private var configuration: DaemonConfiguration
  private var daemon: Daemon?
  private var running: Task<HostError?, Never>?
  /// Whether the radio must be reopened because its configuration has changed.
  private var mustReopen = false
  private let notifier = ServiceNotifier.standard
  private var servers: [RequestServer] = []

  /// Time between attempts to open an adapter.
  private static let pause = Duration.seconds(5)

  /// - Parameters:
  ///   - file: the configuration's file, read again on SIGHUP.
  ///   - configuration: the file's content.
  package init(_ file: String, _ configuration: DaemonConfiguration) {
    (self.file, self.configuration) = (file, configuration)
  }

  /// Records until the task is cancelled.
  ///
  /// - Throws: `Failure` if a port for the status cannot be opened.
  package func run() async throws {
    try serve()
    Interruption.onHangUp { Task { await self.reload() } }
    let watchdog = watch()
    notifier.ready("starting")
    await withTaskCancellationHandler {
      await keep()
    } onCancel: {
      Task { await self.end() }
    }
    notifier.stopping()
    watchdog?.cancel()
    for server in servers { server.stop() }
  }

  private func keep() async {
    var last = ""
    while !Task.isCancelled {
      let radio: Radio
      do { radio = try await configuration.radio.open() } catch {
        let text = (error as? Failure)?.message ?? "\(error)"
        if text != last { Console.note("\(text); retrying every \(Self.pause.components.seconds) s") }
        last = text
        notifier.status(text)
        try? await Task.sleep(for: Self.pause)
        continue
      }
      last = ""
      let daemon = Daemon(configuration, on: radio.adapter) { Console.note($0) }
      let running = Task(executorPreference: radio.adapter.loop.preference) { await daemon.run() }
      (self.daemon, self.running, mustReopen) = (daemon, running, false)
      let began = "recording \(counted(configuration.devices.count, "device")) on \(radio.adapter.name)"
      Console.note(began)
      notifier.ready(began)
      if Task.isCancelled { running.cancel() }
      let lost = await running.value
      (self.daemon, self.running) = (nil, nil)
      await radio.end()
      if let lost, !Task.isCancelled {
        Console.note("\(lost); reopening the adapter")
        try? await Task.sleep(for: Self.pause)
      } else if !mustReopen {
        return
      }
    }
  }

  private func end() { running?.cancel() }

  /// Sends keep-alives to the watchdog. Each one waits for the receive thread, so they stop if that thread
  /// hangs.
  private func watch() -> Task<Void, Never>? {
    guard let interval = notifier.watchdogInterval else { return nil }
    return Task {
      while (try? await Task.sleep(for: interval)) != nil {
        await daemon?.turn()
        notifier.isAlive()
      }
    }
  }

  // MARK: A new configuration

  private func reload() async {
    notifier.reloading()
    do {
      let (old, new) = (configuration, try DaemonConfiguration(file: file))
      configuration = new
      if new.radio != old.radio {
        Console.note("\(file): the radio changed; all captures restart on the new one")
        mustReopen = true
        running?.cancel()
      } else {
        await daemon?.reload(new)
        Console.note("\(file): reloaded, \(counted(new.devices.count, "device"))")
      }
      if new.statusSocket != old.statusSocket || new.metrics?.host != old.metrics?.host
        || new.metrics?.port != old.metrics?.port
      {
        Console.note("\(file): changes of statusSocket and metrics take effect when the daemon is restarted")
      }
    } catch {
      Console.note("\((error as? Failure)?.message ?? "\(error)")")
      Console.note("configuration unchanged: fix the file and reload")
    }
    notifier.ready("recording \(counted(configuration.devices.count, "device"))")
  }

  // MARK: Status requests

  private func serve() throws {
    let own = configuration.statusSocket
    let path = try own ?? failing { () throws(SystemError) in try RuntimeFolder.make() + "/status" }
    try start({ () throws(SystemError) in try RequestServer(path: path) }, "the status socket \(path)") {
      peer in
      self.answer(peer) { status, question in
        guard question.hasPrefix("json") else {
          return Array(((status?.lines ?? [Self.noRadio]).joined(separator: "\n") + "\n").utf8)
        }
        var line = JSONLine()
        if let status {
          status.encode(into: &line)
        } else {
          line.object { $0.member("devices", array: { _ in }) }
        }
        return line.octets
      }
    }
    guard let (host, port) = configuration.metrics else { return }
    try start(
      { () throws(SystemError) in try RequestServer(host: host, port: port) },
      "the metrics port \(host):\(port)"
    ) { peer in
      self.answer(peer) { status, question in
        guard question.hasPrefix("GET /metrics") else {
          return Array("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".utf8)
        }
        let page = Array(
          "# HELP ringtap_up 1 while an adapter is open.\n# TYPE ringtap_up gauge\nringtap_up \(status == nil ? 0 : 1)\n\(status?.metrics ?? "")"
            .utf8)
        let head =
          "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: \(page.count)\r\n"
          + "Connection: close\r\n\r\n"
        return Array(head.utf8) + page
      }
    }
  }

  private static let noRadio = "no adapter yet"

  private func start(
    _ make: () throws(SystemError) -> RequestServer, _ what: String,
    _ body: @escaping @Sendable (consuming RequestServer.Peer) -> Void
  ) throws {
    do throws(SystemError) {
      let server = try make()
      try server.start(body)
      servers.append(server)
    } catch {
      throw Failure(
        "cannot open \(what) (\(error)); is another daemon running? Change it in \(file)")
    }
  }

  private nonisolated func answer(
    _ peer: consuming RequestServer.Peer,
    _ body: @escaping @Sendable (DaemonStatus?, String) -> [UInt8]
  ) {
    let question = peer.question
    // A task cannot consume a captured value, but it can take the value out of a box.
    let waiting = Mutex<RequestServer.Peer?>(peer)
    let box = PeerBox(waiting)
    Task {
      let octets = body(await self.daemon?.status(), question)
      box.take()?.answer(octets.span)
    }
  }
}

/// Passes a peer to the task that answers its request.
private final class PeerBox: Sendable {
  private let peer: Mutex<RequestServer.Peer?>

  init(_ peer: consuming Mutex<RequestServer.Peer?>) { self.peer = peer }

  func take() -> RequestServer.Peer? { peer.withLock { $0.take() } }
}

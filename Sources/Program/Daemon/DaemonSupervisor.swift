import BLEHost
import BLELinux
import BLEWire
import CommandKit
import JSONText
import Recording
import RingTap
import Synchronization

/// Keeps a daemon running on the configured radios: opens the radios, and recovers and reopens lost radios.
/// Reloads the configuration, serves the status, and reports to the service manager.
package actor DaemonSupervisor {
  private let file: String
  private var configuration: DaemonConfiguration
  private var daemon: Daemon?
  private var running: Task<Void, Never>?
  /// Whether the radios must be reopened because their configuration has changed.
  private var mustReopen = false
  private let notifier = ServiceNotifier.standard
  private var servers: [RequestServer] = []

  /// Pause between attempts to open an adapter.
  private static let pause = Duration.seconds(5)
  /// Time that an adapter may be absent before other adapters take its devices.
  private static let absence = Duration.seconds(10)

  /// Creates a supervisor.
  ///
  /// - Parameters:
  ///   - file: the configuration's file, read again on SIGHUP.
  ///   - configuration: the file's content.
  package init(_ file: String, _ configuration: DaemonConfiguration) {
    (self.file, self.configuration) = (file, configuration)
  }

  /// Records until the task is cancelled.
  ///
  /// - Throws: `Failure` if a port for the status cannot be opened, or no thread is available.
  package func run() async throws {
    try serve()
    Interruption.onHangUp { Task { await self.reload() } }
    let watchdog = watch()
    notifier.ready("starting")
    let loop = try failing { () throws(SystemError) in try EventLoop(name: "ringtap-daemon") }
    await withTaskCancellationHandler {
      await keep(on: loop)
    } onCancel: {
      Task { await self.end() }
    }
    notifier.stopping()
    watchdog?.cancel()
    for server in servers { server.stop() }
    loop.stop()
  }

  private func keep(on loop: EventLoop) async {
    repeat {
      let configuration = configuration
      let daemon = Daemon(configuration, on: loop) { Console.note($0) }
      let running = Task(executorPreference: loop.preference) { await daemon.run() }
      (self.daemon, self.running, mustReopen) = (daemon, running, false)
      if Task.isCancelled { running.cancel() }
      let radios = Task {
        await withTaskGroup(of: Void.self) { group in
          for (place, radio) in configuration.radios.enumerated() {
            group.addTask {
              await self.keep(radio, at: place, for: daemon, among: configuration.radios.count)
            }
          }
        }
      }
      await running.value
      radios.cancel()
      await radios.value
      (self.daemon, self.running) = (nil, nil)
    } while mustReopen && !Task.isCancelled
  }

  private func end() { running?.cancel() }

  // MARK: Radios

  /// Keeps one radio open until the task is cancelled.
  private func keep(
    _ configured: DaemonConfiguration.Radio, at place: Int, for daemon: Daemon, among count: Int
  ) async {
    var opener = RadioOpener(configured.choice)
    while !Task.isCancelled {
      guard let radio = await opener.next() else {
        await daemon.miss(place)
        if let problem = opener.problem { notifier.status(problem) }
        try? await Task.sleep(for: Self.pause)
        continue
      }
      let lost = await serve(radio, at: place, for: daemon, among: count)
      guard let lost, !Task.isCancelled else { return }
      Console.note("\(lost); reopening the adapter")
      opener.noteLoss()
      try? await Task.sleep(for: Self.pause)
    }
  }

  /// Lets the daemon use a radio, and closes the radio afterwards.
  ///
  /// - Returns: the error that lost the radio; `nil` if the task was cancelled.
  private func serve(
    _ radio: consuming Radio, at place: Int, for daemon: Daemon, among count: Int
  ) async -> HostError? {
    let watch = AdapterWatch(radio.adapter) {
      Console.note($0)
    } changed: { state in
      Task { await self.changed(state, of: place, of: daemon, among: count) }
    }
    let over = await daemon.add(radio.adapter, watch, at: place)
    await tell(daemon, radio.adapter, at: place, among: count)
    let watching = radio.adapter.loop.task { await watch?.run() }
    let lost = await Self.value(of: over)
    watching.cancel()
    await watching.value
    if lost == nil { await daemon.remove(place) }
    await radio.end()
    return lost
  }

  private func tell(_ daemon: Daemon, _ adapter: any Adapter, at place: Int, among count: Int) async {
    let devices = count == 1 ? configuration.devices.count : await daemon.deviceCount(of: place)
    let began =
      count == 1 || devices > 0
      ? "recording \(counted(devices, "device")) on \(adapter.name)" : "\(adapter.name) is open"
    Console.note(began)
    notifier.ready(began)
  }

  /// Waits for the error of a lost radio and returns it; `nil` if the task is cancelled first.
  private static func value(of over: OneShot<HostError>) async -> HostError? {
    let first = OneShot<HostError?>()
    let waiting = Task { first.set(await over.value()) }
    defer { waiting.cancel() }
    return await first.value(ifCancelled: nil)
  }

  /// Moves devices from an adapter that has failed or been absent for long, and back to an adapter that
  /// responds.
  private func changed(
    _ state: AdapterWatch.State, of place: Int, of daemon: Daemon, among count: Int
  ) async {
    guard count > 1 else { return }
    switch state {
    case .answers: await daemon.mark(place, isUsable: true)
    case .recovering: break
    case .failed: await daemon.mark(place, isUsable: false)
    case .absent, .off:
      try? await Task.sleep(for: Self.absence)
      guard let now = await daemon.watchState(of: place), [.absent, .off, .failed].contains(now) else {
        return
      }
      await daemon.mark(place, isUsable: false)
    }
  }

  /// Sends keep-alives to the service manager's watchdog. Each keep-alive waits for the receive threads, so
  /// the keep-alives stop if a receive thread hangs.
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
      if new.radios != old.radios {
        let (what, on) = new.radios.count == 1 ? ("radio", "the new one") : ("radios", "the new ones")
        Console.note("\(file): the \(what) changed; all captures restart on \(on)")
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

  /// The daemon's state; `nil` if no radio is open.
  private var status: DaemonStatus? {
    get async {
      guard let status = await daemon?.status(), !status.adapters.isEmpty else { return nil }
      return status
    }
  }

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
    // A task cannot consume a captured value, but can take the value out of a box.
    let waiting = Mutex<RequestServer.Peer?>(peer)
    let box = PeerBox(waiting)
    Task {
      let octets = body(await self.status, question)
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

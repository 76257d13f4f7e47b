import ArgumentParser
import BLEHost
import BLELinux
import BLEWire
import CommandKit
import Daemon
import Fleet
import JSONText
import Recording
import Synchronization

/// `ringtap daemon [FILE]`.
struct DaemonCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "daemon",
    abstract: "Record the devices of a configuration file.",
    discussion: """
      Connects to every device in the file and records it as `capture` and the sensor commands do, each into \
      DIRECTORY/NAME/20261122T033154Z. It reconnects lost links without a time limit, starts a new capture \
      after newCaptureHours, and deletes the oldest captures beyond the limits of age and size. Without an \
      adapter it waits for one. Events are printed on standard error, one per line.

      The file is JSON. It must have directory and devices, and each device must have name, address and sensor:

        {"directory": "/var/lib/ringtap/captures",
         "radio": {"adapter": "hci0", "mode": "auto"},
         "newCaptureHours": 24, "syncSeconds": 1,
         "keepDays": 30, "keepGigabytes": 20, "keepFreeGigabytes": 1,
         "metrics": "127.0.0.1:9469", "statusSocket": "/run/ringtap/status",
         "publish": {"to": "mqtts://ward@broker.example/fleet",
                     "password-file": "/etc/credstore/ringtap.password"},
         "homeAssistant": {"to": "mqtt://ringtap@home.local",
                           "password-file": "/etc/credstore/ringtap.password"},
         "devices": [
           {"name": "left", "address": "70:CB:0D:00:A1:B2", "sensor": "ring"},
           {"name": "chest", "address": "C4:12:34:56:78:9A", "addressType": "random",
            "sensor": "heart-rate", "format": "npy", "link": {"interval": "7.5-15"}},
           {"name": "h10", "address": "A0:9E:1A:00:00:01", "sensor": "polar",
            "stream": "ecg", "rate": 130}]}

      sensor is ring, heart-rate, thermometer, cycling or polar (with stream ecg, acc or ppg); format is csv or \
      npy. radio has the options --adapter, --mode and --transport of other commands, link those of \
      `capture`: interval, latency, supervision-timeout, phy, data-length. publish has to, as, backlog, ca \
      and password-file, which are --publish, --publish-as and so on of `capture`; homeAssistant has to, ca \
      and password-file, which are --home-assistant and so on. Rows that no collector has confirmed when a \
      capture or the daemon ends are sent later, while the capture is kept. A gigabyte is 10⁹ bytes.

      SIGHUP reloads the file: devices that are in both versions continue undisturbed, and an invalid file \
      changes nothing. SIGTERM and Ctrl-C end every capture properly. Under systemd it is a service of \
      Type=notify with a watchdog. `ringtap status` shows its state; metrics is a port for Prometheus.

      EXAMPLES
        ringtap daemon /etc/ringtap.json
        ringtap daemon --check /etc/ringtap.json
            checks the file and exits; prints each error with its line
        sudo systemctl reload ringtap
        curl http://127.0.0.1:9469/metrics
      """)

  @Argument(help: "The configuration file.")
  var file = "/etc/ringtap.json"

  @Flag(help: "Check the configuration file and exit.")
  var check = false

  func run() async throws {
    let plan = try DaemonPlan(file)
    guard !check else {
      let count = plan.jobs.count
      return try Console.print("\(file): valid, \(count) device\(count == 1 ? "" : "s")")
    }
    let keeper = DaemonKeeper(file, plan)
    try await Interruption.cancelling { try await keeper.run() }
  }
}

/// A configuration whose options have been parsed by the command-line parser.
struct DaemonPlan: Sendable {
  let configuration: DaemonConfiguration
  let jobs: [DaemonJob]
  let radio: AdapterOptions
  let publishing: PublishRun.Plan?

  /// Maximum size of the file in bytes.
  private static let limit = 1 << 20

  init(_ path: String) throws {
    let octets = try failing { () throws(SystemError) in try WrittenFile.octets(of: path, limit: Self.limit) }
    let configuration: DaemonConfiguration
    do throws(DaemonConfiguration.Invalid) {
      configuration = try DaemonConfiguration(octets, path: path)
    } catch { throw Failure(Self.text(error)) }
    self.configuration = configuration
    var problems: [DaemonConfiguration.Invalid.Problem] = []
    func read<Value: ParsableArguments, Result>(
      _ options: DaemonConfiguration.Options, _ what: String, as type: Value.Type,
      _ make: (Value) throws -> Result
    ) -> Result? {
      do { return try make(try Value.parse(options.arguments)) } catch {
        // With several options, find the line of the option that is invalid on its own.
        let line = options.options.first { (try? Value.parse($0.arguments)) == nil }?.line ?? options.line
        let message = Value.message(for: error).prefix { $0 != "\n" }
        problems.append(.init(line: line, text: "\(what): \(message)"))
        return nil
      }
    }
    let radio = read(configuration.radio, "radio", as: AdapterOptions.self) { $0 }
    let home = read(configuration.homeAssistant, "homeAssistant", as: DaemonHomeAssistantOptions.self) {
      try $0.plan()
    }
    jobs = configuration.devices.compactMap { device in
      read(device.link, "link of \(device.name)", as: LinkOptions.self) { try $0.request() }
        .map { DaemonJob(device, $0, homeAssistant: home ?? nil) }
    }
    let publishing = read(configuration.publishing, "publish", as: DaemonPublishOptions.self) {
      try $0.plan()
    }
    guard let radio, problems.isEmpty else {
      throw Failure(Self.text(DaemonConfiguration.Invalid(path: path, problems: problems)))
    }
    self.radio = radio
    self.publishing = publishing ?? nil
  }

  /// The errors, one per line, in the format of compilers.
  private static func text(_ invalid: DaemonConfiguration.Invalid) -> String {
    (["the configuration is invalid"]
      + invalid.problems.map { "\(invalid.path):\($0.line): \($0.text.printable)" }).joined(separator: "\n")
  }
}

/// Keeps a daemon running on the configured radio, and reopens the radio when it is lost.
private actor DaemonKeeper {
  private let file: String
  private var plan: DaemonPlan
  private var daemon: Daemon?
  private var running: Task<HostError?, Never>?
  /// Whether the radio must be reopened because its configuration has changed.
  private var mustReopen = false
  private let notifier = ServiceNotifier.standard
  private var servers: [RequestServer] = []

  /// Time between attempts to open an adapter.
  private static let pause = Duration.seconds(5)

  init(_ file: String, _ plan: DaemonPlan) {
    self.file = file
    self.plan = plan
  }

  func run() async throws {
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
      do { radio = try await plan.radio.open() } catch {
        let text = (error as? Failure)?.message ?? "\(error)"
        if text != last { Console.note("\(text); retrying every \(Self.pause.components.seconds) s") }
        last = text
        notifier.status(text)
        try? await Task.sleep(for: Self.pause)
        continue
      }
      last = ""
      let daemon = Daemon(plan.configuration, on: radio.adapter) { Console.note($0) }
      let (jobs, publishing) = (plan.jobs, plan.publishing)
      let running = Task(executorPreference: radio.adapter.loop.preference) {
        await daemon.run(jobs, publishing: publishing)
      }
      (self.daemon, self.running, mustReopen) = (daemon, running, false)
      notifier.ready("recording \(jobs.count) devices on \(radio.adapter.name)")
      if Task.isCancelled { running.cancel() }
      let lost = await running.value
      (self.daemon, self.running) = (nil, nil)
      await radio.close()
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
      let new = try DaemonPlan(file)
      let old = plan
      plan = new
      if new.configuration.radio != old.configuration.radio {
        Console.note("\(file): the radio changed; all captures restart on the new one")
        mustReopen = true
        running?.cancel()
      } else {
        await daemon?.reload(new.configuration, new.jobs, publishing: new.publishing)
        Console.note("\(file): reloaded, \(new.jobs.count) devices")
      }
      if new.configuration.statusSocket != old.configuration.statusSocket
        || new.configuration.metrics?.host != old.configuration.metrics?.host
        || new.configuration.metrics?.port != old.configuration.metrics?.port
      {
        Console.note("\(file): changes of statusSocket and metrics take effect when the daemon is restarted")
      }
    } catch {
      Console.note("\((error as? Failure)?.message ?? "\(error)")")
      Console.note("configuration unchanged: fix the file and reload")
    }
    notifier.ready("recording \(plan.jobs.count) devices")
  }

  // MARK: Status requests

  private func serve() throws {
    let own = plan.configuration.statusSocket
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
    guard let (host, port) = plan.configuration.metrics else { return }
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

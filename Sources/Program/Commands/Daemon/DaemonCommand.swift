import ArgumentParser
import BLELinux
import CommandKit
import Daemon
import JSONText
import Recording

/// The command `ringtap daemon [FILE]`.
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
         "radio": {"adapter": "00:1A:7D:DA:71:13", "mode": "auto"},
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
      npy. radio has the options --adapter, --mode and --transport of other commands. Give the adapter by its \
      address (`ringtap adapters`): after a reboot or when it is plugged in again, hci0 may be another one. For \
      several adapters, replace radio by "radios": [{"adapter": …, "links": 7}, …]: devices are spread by number \
      and load, at most links on each, and "adapter" in a device ties it to one. An adapter that stops \
      answering is recovered, and each step is printed: it is asked again, switched off and on, blocked and \
      unblocked with rfkill, and its USB device authorised again, as far as rights allow. \
      link has those of `capture`: interval, latency, supervision-timeout, phy, data-length. publish sends rows to \
      collectors and homeAssistant values to Home Assistant: to is the broker, ca and password-file are those \
      of `ringtap help outputs`, and so are as (name there) and backlog of publish. Rows that no collector has confirmed when a \
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
    let configuration = try DaemonConfiguration(file: file)
    guard !check else {
      let count = configuration.devices.count
      return try Console.print("\(file): valid, \(count) device\(count == 1 ? "" : "s")")
    }
    let supervisor = DaemonSupervisor(file, configuration)
    try await Interruption.cancelling { try await supervisor.run() }
  }
}

/// The command `ringtap status`.
struct StatusCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "status",
    abstract: "Show the status of the daemon.",
    discussion: """
      Prints one line for `ringtap daemon` and one for each device: its state (connecting, streaming, reconnecting \
      or waiting), samples received and lost since the daemon started, rates, and the reason for waiting.

      EXAMPLES
        ringtap status
        ringtap status --json \\
          | jq '.devices[] | select(.state != "streaming") | .name'
      Exit status: 1 if no daemon answers.
      """,
    shouldDisplay: false)

  @Option(help: ArgumentHelp("The daemon's statusSocket (default: the usual ones).", valueName: "path"))
  var socket: String?

  @Flag(help: "Print one JSON object.")
  var json = false

  func run() throws {
    let places = socket.map { [$0] } ?? RuntimeFolder.all.map { $0 + "/status" }
    var failure: SystemError?
    for place in places {
      let octets: [UInt8]
      do throws(SystemError) {
        octets = try RequestClient.answer(of: place, to: json ? "json" : "text")
      } catch {
        failure = failure ?? error
        continue
      }
      if json { return try Console.write(octets) }
      for line in String(decoding: octets, as: UTF8.self).split(separator: "\n") {
        try Console.print(String(line).printable)
      }
      return
    }
    throw Failure(
      "no daemon responds at \(places.joined(separator: " or ")) (\(failure.map { "\($0)" } ?? "")); "
        + "start one with `ringtap daemon FILE`, or give its --socket")
  }
}

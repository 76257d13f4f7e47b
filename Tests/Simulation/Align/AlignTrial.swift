import BLEEmulation
import BLEHost
import BLELinux
import BLEStack
import BLEWire
import JSONText
import Recording
import SensorSessions

/// A recording of emulated sensors on one body, in virtual time, with the true errors of their clocks.
package struct AlignTrial: Sendable {
  /// A sensor: its name in `ringtap capture`, and its part of `virtual:`.
  package struct Sensor: Sendable {
    package var kind: String
    package var text: String

    package init(_ kind: String, _ text: String) { (self.kind, self.text) = (kind, text) }

    /// Value of an option; 0 if it is missing.
    func value(_ option: String) -> Double {
      let field = text.split(separator: ",").first { $0.hasPrefix(option + "=") }
      return field.flatMap { Double($0.dropFirst(option.count + 1)) } ?? 0
    }
  }

  /// Name of the trial's directory.
  package var name: String
  /// Row of the table that the trial belongs to.
  package var group: String
  package var sensors: [Sensor]
  /// Options of all sensors. They describe the body that the sensors share.
  package var body: String
  /// Connection interval in units of 1.25 ms; `nil` for the default of each sensor.
  package var interval: UInt16?
  package var seconds: Int
  package var loss = 0.0
  package var seed: UInt64 = 1
  /// Range of offsets to search, in seconds.
  package var search = 10.0
  /// Whether `align` is expected to refuse.
  package var isHopeless = false

  package init(_ name: String, _ group: String, _ sensors: [Sensor], body: String, seconds: Int) {
    (self.name, self.group, self.sensors, self.body, self.seconds) = (name, group, sensors, body, seconds)
  }

  package struct Failure: Error, CustomStringConvertible {
    package let description: String
  }

  private static let start = ReceiveTime(nanoseconds: 1_700_000_000_000_000_000)

  /// Makes the recording in a subdirectory, with `truth.json`.
  package func record(in folder: String) async throws {
    let text = sensors.map { "\($0.text),shared,\(body)" }.joined(separator: "+")
    let specification = try VirtualPeripheralSpecification(parsing: text)
    let loop = try EventLoop.start(clock: .virtual(from: Self.start))
    let air = VirtualAir.Configuration(pace: .air, packetErrorRate: loss, seed: seed)
    let peripherals = specification.makePeripherals()
    let addresses = peripherals.compactMap { $0.advertisement?.address }
    let controller = VirtualController(.init(), peripherals: peripherals, air: air)
    var pair = try ControllerPort.pair()
    let emulation = try await ControllerAttachment.attach(
      controller, to: pair.takeController(), .datagrams, on: loop)
    let adapter = try await HostAdapter.open(
      try loop.transport(over: pair.takeHost(), .datagrams), name: "virtual", on: loop)
    var members: [(kind: AnySensorKind, recording: SensorRecording)] = []
    for (sensor, address) in zip(sensors, addresses) {
      guard let kind = AnySensorKind(named: sensor.kind) else {
        throw Failure(description: "no kind '\(sensor.kind)'")
      }
      let directory = RecordingGroup.directory(of: address, in: "\(folder)/\(name)")
      var recording = SensorRecording(
        of: address, on: adapter, into: directory, RecordingLimits(duration: .seconds(seconds)))
      recording.plan.request.interval = interval.map { $0...$0 }
      recording.plan.patience = .seconds(60)
      members.append((kind, recording))
    }
    let group = RecordingGroup(members)
    let outcomes = await Task(executorPreference: loop) { await group.run() }.value
    await adapter.close()
    await emulation.detach()
    loop.stop()
    for outcome in outcomes {
      if let failure = try outcome.result.get().failure { throw Failure(description: "\(name): \(failure)") }
    }
    try writeTruth(addresses, "\(folder)/\(name)/truth.json")
  }

  private func writeTruth(_ addresses: [DeviceAddress], _ path: String) throws {
    var line = JSONLine()
    line.object { line in
      line.member("group", group)
      line.member("hopeless", isHopeless)
      line.member("search", search)
      line.member(
        "devices",
        array: { line in
          for (sensor, address) in zip(sensors, addresses) {
            line.object { line in
              line.member("directory", address.fileName)
              line.member("lateMs", sensor.value("late"))
              line.member("ppm", sensor.value("clock-ppm"))
              if sensor.kind == "ring" { line.member("hz", sensor.value("rate") / 3) }
            }
          }
        })
    }
    line.endLine()
    try Files.replace(path, with: line.octets.span)
  }
}

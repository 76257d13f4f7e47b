import BLELinux
import Foundation
import TestKit
import Testing

/// Recordings published through a real broker to a real Home Assistant.
@Suite(.timeLimit(.minutes(3))) struct HomeAssistantTests {
  private static let strap = "ringtap_70cb0d00180d"
  private static let available = "homeassistant/sensor/\(strap)/availability"
  private static let rate = "homeassistant/sensor/\(strap)/heart_rate/state"

  /// Starts a recording of a strap that runs until it is stopped.
  private static func strap(
    _ broker: MosquittoBroker, _ folder: String, _ options: String = "", _ more: [String] = []
  ) throws -> Running {
    try Running(
      [
        "heart-rate", "--transport", "virtual:heart-rate\(options)", "--output", folder + "/ride",
        "--to", broker.homeURL + "?as=home-assistant",
      ] + more, in: folder)
  }

  private static func recorded(_ folder: String) -> Int {
    let path = folder + "/ride/heart_rate.csv"
    return Files.exists(path) ? rows(path).count - 1 : 0
  }

  /// A column of a table, as numbers.
  private static func column(_ name: String, of path: String) throws -> [Double] {
    let lines = rows(path).map { $0.split(separator: ",", omittingEmptySubsequences: false) }
    let place = try #require(lines[0].firstIndex { $0 == name })
    return lines.dropFirst().compactMap { Double($0[place]) }
  }

  private static func directory(_ kind: String, in folder: String, having table: String) throws -> String {
    let found = Files.names(in: folder).first { Files.exists("\(folder)/\($0)/\(table).csv") }
    return "\(folder)/\(try #require(found, "\(kind)"))/\(table).csv"
  }

  /// All kinds of sensor at once: Home Assistant's schemas accept their discovery messages, the entities have
  /// units and classes, and they show the values of the tables.
  @Test func takesEachKind() async throws {
    try await withFolder { folder in
      let broker = try MosquittoBroker(in: folder)
      try await broker.start()
      let (home, witness) = (try await Home(broker), try broker.witness())
      let capture = try Running(
        [
          "capture", "ring", "heart-rate", "thermometer", "cycling", "polar", "--output", folder + "/group",
          "--transport", "virtual:ring,rate=75+heart-rate+core+cycling+polar", "--to",
          broker.homeURL + "?as=home-assistant",
        ], in: folder)
      let wanted: [String: [String?]] = [
        "sensor.r02_a1b2_heart_rate": ["bpm", nil, "measurement"],
        "sensor.r02_a1b2_heart_rate_quality": ["%", nil, "measurement"],
        "sensor.ringtap_strap_heart_rate": ["bpm", nil, "measurement"],
        "sensor.ringtap_strap_battery": ["%", "battery", "measurement"],
        "binary_sensor.ringtap_strap_worn": [nil, nil, nil],
        "sensor.ringtap_strap_energy_expended": ["kJ", nil, "total_increasing"],
        "sensor.core_a1_b2_body_temperature": ["°C", "temperature", "measurement"],
        "sensor.core_a1_b2_skin_temperature": ["°C", "temperature", "measurement"],
        "sensor.core_a1_b2_temperature_quality": [nil, nil, nil],
        "sensor.core_a1_b2_heat_strain_index": [nil, nil, "measurement"],
        "sensor.core_a1_b2_battery": ["%", "battery", "measurement"],
        "binary_sensor.core_a1_b2_worn": [nil, nil, nil],
        "sensor.ringtap_bicycle_cadence": ["rpm", nil, "measurement"],
        "sensor.ringtap_bicycle_wheel": ["rpm", nil, "measurement"],
        "sensor.ringtap_bicycle_battery": ["%", "battery", "measurement"],
        "sensor.polar_h10_0a1b2c3d_battery": ["%", "battery", "measurement"],
      ]
      let unknown = ["unknown", "unavailable"]
      try await eventually("all entities have a value", within: .seconds(60)) {
        try wanted.keys.allSatisfy { entity in try home.states(entity).contains { !unknown.contains($0) } }
      }
      capture.signal(SIGINT)
      #expect(try await capture.status("capture") == 0, "\(capture.said)")
      try await eventually("all are unavailable") {
        try wanted.keys.allSatisfy { try home.states($0).last == "unavailable" }
      }
      #expect(try home.entities == Set(wanted.keys))
      for (entity, facts) in wanted {
        let made = try #require(try home.attributes(entity))
        #expect([made.unit_of_measurement, made.device_class, made.state_class] == facts, "\(entity)")
      }
      try home.expectNoProblems()
      #expect(Set(try home.accepted).count == wanted.count)
      try Self.expectDevices(try home.devices)
      try Self.expectValues(home, folder + "/group")
      try Self.expectPace(messages(witness.text))
    }
  }

  private static func expectDevices(_ devices: [Home.Line]) throws {
    #expect(Set(devices.compactMap(\.name)).count == 5)
    let strap = try #require(devices.last { $0.name == "ringtap strap" })
    #expect(strap.connections == [["bluetooth", "70:CB:0D:00:18:0D"]])
    #expect(strap.manufacturer == "ringtap" && strap.model == "strap" && strap.sw_version == "2.0.1")
  }

  /// Expects that every value that Home Assistant showed is in the tables.
  private static func expectValues(_ home: Home, _ folder: String) throws {
    for (entity, table, name) in [
      ("sensor.ringtap_strap_heart_rate", "heart_rate", "bpm"),
      ("sensor.core_a1_b2_body_temperature", "temperature", "temperature_celsius"),
      ("sensor.core_a1_b2_skin_temperature", "temperature", "skin_celsius"),
      ("sensor.ringtap_bicycle_cadence", "cycling", "cadence_rpm"),
    ] {
      let recorded = try column(name, of: directory(entity, in: folder, having: table))
      let shown = try home.states(entity).compactMap { Double($0) }
      #expect(!shown.isEmpty)
      let width = name.hasSuffix("celsius") ? 0.0051 : 0.51
      #expect(
        shown.allSatisfy { value in recorded.contains { abs($0 - value) < width } }, "\(entity): \(shown)")
    }
    #expect(try home.states("sensor.r02_a1b2_heart_rate").contains("72"), "the emulated wearer's")
  }

  /// Expects at most one message a second for each topic until the recording ends.
  private static func expectPace(_ messages: [Message]) throws {
    let end = try #require(messages.first { $0.text == "offline" }).time
    for (topic, messages) in Dictionary(grouping: messages.filter { $0.time < end }, by: \.topic) {
      #expect(zip(messages, messages.dropFirst()).allSatisfy { $1.time - $0.time > 0.8 }, "\(topic)")
    }
    let rate = Double(messages.count) / (end - messages[0].time)
    print("five devices: \(messages.count) messages, \((rate * 10).rounded() / 10) a second")
    #expect(rate < 10)
  }

  /// The broker is killed and loses its state. Everything is published again, and values continue.
  @Test func aBrokerThatComesBack() async throws {
    try await withFolder { folder in
      let broker = try MosquittoBroker(in: folder)
      try await broker.start()
      let home = try await Home(broker)
      let capture = try Self.strap(broker, folder)
      let entity = "sensor.ringtap_strap_heart_rate"
      try await eventually("a rate") { try home.states(entity).contains { Double($0) != nil } }
      let before = try await broker.retained()
      await broker.kill()
      try await eventually("that is told") { capture.said.contains("; the recording continues without Home") }
      let (rows, states) = (Self.recorded(folder), try home.states(entity).count)
      try await eventually("it records without a broker") { Self.recorded(folder) > rows + 2 }
      try await broker.start()
      try await eventually("it is told again") { capture.said.contains("publishing to Home Assistant again") }
      try await eventually("values go on", within: .seconds(60)) {
        try home.states(entity).dropFirst(states).contains { Double($0) != nil }
      }
      let after = try await broker.retained()
      let isFixed = { (topic: String) in !topic.hasSuffix("/state") }
      #expect(before.keys.count >= 7 && Set(after.keys).isSuperset(of: before.keys))
      #expect(before.filter { isFixed($0.key) }.allSatisfy { after[$0.key] == $0.value })
      #expect(after[Self.available] == "online")
      capture.signal(SIGINT)
      #expect(try await capture.status("capture") == 0, "\(capture.said)")
      try home.expectNoProblems(brokerWasKilled: true)
      #expect(capture.text.contains("0 dropped here of "))
    }
  }

  /// Home Assistant starts later, at a broker that retains nothing: its birth message makes everything be
  /// sent again.
  @Test func aHomeAssistantThatStartsLater() async throws {
    try await withFolder { folder in
      let broker = try MosquittoBroker(in: folder)
      try await broker.start()
      let capture = try Self.strap(broker, folder)
      let topics = ["battery", "heart_rate"].map { "homeassistant/sensor/\(Self.strap)/\($0)/config" }
      try await eventually("it is told of") { Set(try await broker.retained().keys).isSuperset(of: topics) }
      try await broker.forget(Self.strap)
      // Values are still published, but messages that do not change are no longer retained.
      #expect(try await Set(broker.retained().keys).isDisjoint(with: topics + [Self.available]))
      let home = try await Home(broker)
      try await eventually("a rate and the battery") {
        try home.states("sensor.ringtap_strap_heart_rate").contains { Double($0) != nil }
          && home.states("sensor.ringtap_strap_battery").contains("84")
      }
      capture.signal(SIGINT)
      #expect(try await capture.status("capture") == 0, "\(capture.said)")
      // Discovery messages stay until a user removes them.
      var retained = try await broker.retained()
      #expect(Set(retained.keys).isSuperset(of: topics) && retained[Self.available] == "offline")
      #expect(retained[Self.rate] == "None")
      try await broker.forget(Self.strap)
      retained = try await broker.retained()
      #expect(retained.isEmpty)
      try home.expectNoProblems()
    }
  }

  @Test func aKilledRecording() async throws {
    try await withFolder { folder in
      let broker = try MosquittoBroker(in: folder)
      try await broker.start()
      let witness = try broker.witness()
      let capture = try Self.strap(broker, folder)
      try await eventually("a rate") { witness.text.contains(" \(Self.rate) ") }
      try await capture.kill()
      try await eventually("the last will") { witness.text.contains(" \(Self.available) offline") }
      #expect(try await broker.retained()[Self.available] == "offline")
    }
  }

  /// A strap that is taken off from time to time: the contact state changes, and there is no rate without
  /// contact.
  @Test func aStrapWithoutContact() async throws {
    try await withFolder { folder in
      let broker = try MosquittoBroker(in: folder)
      try await broker.start()
      let witness = try broker.witness()
      let capture = try Self.strap(broker, folder, ",off-body-every=2")
      let worn = "homeassistant/binary_sensor/\(Self.strap)/worn/state"
      try await eventually("both") {
        let seen = messages(witness.text)
        return seen.contains { $0.topic == worn && $0.text == "OFF" }
          && seen.contains { $0.topic == Self.rate }
      }
      capture.signal(SIGINT)
      #expect(try await capture.status("capture") == 0, "\(capture.said)")
      let rates = messages(witness.text).filter { $0.topic == Self.rate }.map(\.text)
      #expect(!rates.contains("0") && rates.contains("None"), "\(rates)")
    }
  }

  // MARK: Brokers

  @Test func aBrokerThatIsNotThere() async throws {
    try await withFolder { folder in
      let broker = try MosquittoBroker(in: folder)
      let capture = try Self.strap(broker, folder, "", ["--count", "4"])
      #expect(try await capture.status("capture") == 4)
      #expect(Self.recorded(folder) == 4 && capture.text.contains("0 dropped here of 4"), "\(capture.text)")
      let why =
        "cannot reach the broker at 127.0.0.1:\(broker.port) (connect: Connection refused); start it, or correct the URL"
      #expect(
        capture.said.contains("\(why); the recording continues without Home Assistant"), "\(capture.said)")
      #expect(capture.said.contains("Home Assistant did not receive everything: \(why)"))
    }
  }

  /// The broker holds the connection and answers nothing.
  @Test func aBrokerThatStandsStill() async throws {
    try await withFolder { folder in
      let broker = try MosquittoBroker(in: folder)
      try await broker.start()
      let witness = try broker.witness()
      let capture = try Self.strap(broker, folder)
      try await eventually("a rate") { witness.text.contains(" \(Self.rate) ") }
      broker.signal(SIGSTOP)
      try await eventually("that is told") {
        capture.said.contains(" has not answered for 5 s; the recording")
      }
      let rows = Self.recorded(folder)
      try await eventually("it records on") { Self.recorded(folder) > rows + 2 }
      broker.signal(SIGCONT)
      try await eventually("it is told again") { capture.said.contains("publishing to Home Assistant again") }
      broker.signal(SIGSTOP)
      let before = ContinuousClock.now
      capture.signal(SIGINT)
      #expect(try await capture.status("capture") == 4, "\(capture.said)")
      #expect(ContinuousClock.now - before < .seconds(5), "who interrupts does not wait for it")
      #expect(capture.text.contains("0 dropped here of "), "\(capture.text)")
      broker.signal(SIGCONT)
    }
  }

  /// The recording is complete, and the message names this option.
  @Test func aBrokerThatRefuses() async throws {
    try await withFolder { folder in
      try "pattern read #\n".write(toFile: folder + "/access", atomically: true, encoding: .utf8)
      let broker = try MosquittoBroker(
        in: folder, ["allow_anonymous true", "acl_file \(folder)/access"])
      try await broker.start()
      let capture = try Self.strap(broker, folder, "", ["--count", "4"])
      #expect(try await capture.status("capture") == 4, "\(capture.said)")
      #expect(
        capture.said.contains("the broker refuses messages to homeassistant/sensor/\(Self.strap)/"),
        "\(capture.said)")
      let strict = try MosquittoBroker(in: folder + "/walk", ["allow_anonymous false"])
      try await strict.start()
      let other = try Self.strap(strict, folder + "/walk", "", ["--count", "2"])
      #expect(try await other.status("capture") == 4)
      #expect(other.said.contains("password-file=FILE in the URL of --to"), "\(other.said)")
    }
  }

  // MARK: Texts from the air

  /// A name with wildcards, separators, quotation marks and terminal control characters appears in no topic,
  /// and unchanged in its string.
  @Test func aHostileName() async throws {
    let name = "#+/\u{1B}[2J\"},{\\\u{202E}/+/#\u{7F}"
    try await withFolder { folder in
      let broker = try MosquittoBroker(in: folder)
      try await broker.start()
      let (home, witness) = (try await Home(broker), try broker.witness())
      let reach = ["--transport", "unix:" + folder + "/strap"]
      let strap = try Ringtap.start(["emulate", "heart-rate", "--name", name] + reach)
      try await strap.line(containing: "ready")
      let capture = try Running(
        [
          "heart-rate", "--name", name, "--output", folder + "/ride", "--to",
          broker.homeURL + "?as=home-assistant",
        ]
          + reach,
        in: folder)
      try await eventually("a rate") { witness.text.contains("/heart_rate/state ") }
      try await eventually("it is known") { try home.states("sensor.\(Self.slug)_heart_rate").count > 1 }
      capture.signal(SIGINT)
      #expect(try await capture.status("capture") == 0, "\(capture.said)")
      await strap.end()
      let shape =
        /homeassistant\/(sensor|binary_sensor)\/ringtap_[0-9a-f]{12}\/(availability|[a-z_]+\/(config|state))/
      let topics = Set(messages(witness.text).map(\.topic))
      #expect(topics.count > 4 && topics.allSatisfy { $0.wholeMatch(of: shape) != nil }, "\(topics)")
      try home.expectNoProblems()
      #expect(try home.devices.last?.name == "#+/\u{FFFD}[2J\"},{\\\u{FFFD}/+/#\u{FFFD}")
    }
  }

  /// Home Assistant's slug for that name.
  private static let slug = "2j"

  // MARK: A daemon

  @Test func aDaemon() async throws {
    try await withFolder { folder in
      let broker = try MosquittoBroker(in: folder)
      try await broker.start()
      let home = try await Home(broker)
      let file = folder + "/ringtap.json"
      func write(_ more: String) throws {
        try """
        {"directory": "\(folder)/captures", "statusSocket": "\(folder)/status",
         "radio": {"transport": "virtual:heart-rate"}, \(more)
         "devices": [{"name": "chest", "address": "70:CB:0D:00:18:0D", "sensor": "heart-rate"}]}
        """.write(toFile: file, atomically: true, encoding: .utf8)
      }
      try write(#""homeAssistant": {"to": "\#(broker.homeURL)"},"#)
      let daemon = try Running(["daemon", file], in: folder)
      try await eventually("a rate") {
        try home.states("sensor.chest_heart_rate").contains { Double($0) != nil }
      }
      try write("")
      daemon.signal(SIGHUP)
      try await eventually("that was the end") {
        try home.states("sensor.chest_heart_rate").last == "unavailable"
      }
      try await eventually("and is withdrawn") { try await broker.retained()[Self.rate] == "None" }
      daemon.signal(SIGTERM)
      #expect(try await daemon.status("daemon") == 0, "\(daemon.said)")
      #expect(!daemon.said.contains("not receive everything"), "\(daemon.said)")
      try home.expectNoProblems()
      try write(#""homeAssistant": {"to": "http://broker"},"#)
      let check = try await Ringtap.run(["daemon", "--check", file])
      #expect(check.status == 1)
      #expect(
        check.errors.contains("ringtap.json:2: homeAssistant: 'http://broker' does not begin with mqtt://"),
        "\(check.errors)")
    }
  }
}

import Foundation
import TestKit
import Testing

/// Home Assistant with a broker, run during a test by `Tests/Readers/home.py`.
final class Home {
  struct Line: Decodable {
    struct Attributes: Decodable {
      var unit_of_measurement: String?
      var device_class: String?
      var state_class: String?
    }
    var kind: String
    var entity, state, topic, text: String?
    var attributes: Attributes?
    var name, manufacturer, model, sw_version: String?
    var connections: [[String]]?
  }

  private let program: Program

  init(_ broker: MosquittoBroker) async throws {
    program = try Program(
      Place.homePython(), [Place.fixture("Readers/home.py"), "\(broker.port)"])
    try await eventually("Home Assistant is ready") { try lines("ready").isEmpty == false }
  }

  deinit { program.send(SIGKILL) }

  private func lines(_ kind: String) throws -> [Line] {
    if program.hasEnded { throw Program.Failure(description: "Home Assistant ended: \(program.errors)") }
    let text = program.output
    // The last line may be incomplete.
    guard let end = text.lastIndex(of: "\n") else { return [] }
    return try text[..<end].split(separator: "\n").map {
      try JSONDecoder().decode(Line.self, from: Data($0.utf8))
    }.filter { $0.kind == kind }
  }

  /// All states that an entity has had.
  func states(_ entity: String) throws -> [String] {
    try lines("state").filter { $0.entity == entity }.compactMap(\.state)
  }

  func attributes(_ entity: String) throws -> Line.Attributes? {
    try lines("state").last { $0.entity == entity }?.attributes
  }

  var entities: Set<String> { get throws { Set(try lines("state").compactMap(\.entity)) } }
  var devices: [Line] { get throws { try lines("device") } }
  /// Topics of the discovery messages that Home Assistant's schemas accepted.
  var accepted: [String] { get throws { try lines("config").compactMap(\.topic) } }

  /// Expects that Home Assistant logged no errors and no warnings.
  ///
  /// - Parameter brokerWasKilled: whether paho may report that the test reset its connection.
  func expectNoProblems(
    brokerWasKilled: Bool = false, at location: SourceLocation = #_sourceLocation
  ) throws {
    let problems = try lines("problem").compactMap(\.text).filter {
      !(brokerWasKilled && $0.hasSuffix("failed to receive on socket: [Errno 104] Connection reset by peer"))
    }
    #expect(problems.isEmpty, "\(problems)", sourceLocation: location)
  }
}

/// A message that a broker delivered.
struct Message: Hashable {
  var time: Double
  var topic: String
  var text: String
}

extension MosquittoBroker {
  /// Broker URL for Home Assistant messages.
  var homeURL: String { "mqtt://127.0.0.1:\(port)" }

  /// Subscribes to all topics with Mosquitto's own client.
  func witness() throws -> Running {
    try Running("mosquitto_sub", ["-p", "\(port)", "-q", "1", "-t", "#", "-F", "%U %t %p"], in: folder)
  }

  /// Reads the retained messages by topic.
  func retained() async throws -> [String: String] {
    let run = try await Program.run(
      "mosquitto_sub",
      ["-p", "\(port)", "-t", "homeassistant/#", "--retained-only", "-W", "1", "-F", "%U %t %p"])
    return Dictionary(messages(run.output).map { ($0.topic, $0.text) }) { $1 }
  }

  func publish(_ topic: String, _ text: String) async throws {
    _ = try await Program.run("mosquitto_pub", ["-p", "\(port)", "-q", "1", "-t", topic, "-m", text])
  }

  /// Removes a device's retained messages as described in the guide.
  func forget(_ node: String) async throws {
    _ = try await Program.run(
      "mosquitto_sub",
      ["-p", "\(port)", "-t", "homeassistant/+/\(node)/#", "--retained-only", "--remove-retained", "-W", "2"])
  }
}

/// Messages that `witness` printed, without an incomplete last line and without Home Assistant's own
/// messages.
func messages(_ text: String) -> [Message] {
  guard let end = text.lastIndex(of: "\n") else { return [] }
  return text[..<end].split(separator: "\n").map { line in
    let parts = line.split(separator: " ", maxSplits: 2, omittingEmptySubsequences: false).map(String.init)
    return Message(time: Double(parts[0]) ?? .nan, topic: parts[1], text: parts[2])
  }.filter { $0.topic != "homeassistant/status" }
}

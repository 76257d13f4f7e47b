import BLEEmulation
import BLEHost
import BLELinux
import BLEPeripheral
import BLEStack
import BLEWire
import Dialogues
import Foundation
import Synchronization
import TestKit
import TestPeer
import Testing

/// Plays an attack against our host in virtual time, and describes the result in the syntax of its
/// expectation.
///
/// A central performs `action` as in the other dialogues: on the first link, or after `each` on all links at
/// once; `none` performs nothing. A peripheral serves the dialogue's database as in the server's dialogues,
/// and notifies each subscriber of a value once.
///
/// Expected lines, in addition to those of an action:
/// - `links N`: number of links that are up at the end.
/// - `value HANDLE OCTETS`: a value of the server.
/// - `counted host.NAME N`: a member of `HCIHostStatistics`, of the first link's `BearerStatistics`
///   (`link.NAME`), or of `GATTServerStatistics` (`server.NAME`).
///
/// `...` at the ends of a line matches any text.
struct AttackRun {
  let dialogue: ATTDialogue
  let link: DialogueLink

  /// - Returns: The expected and the actual lines. Deviations of the host precede the actual lines.
  static func play(_ dialogue: ATTDialogue) async throws -> (expected: [String], found: [String]) {
    let expected = dialogue.expectation.map { DialogueRun.plain($0) }
    let link: DialogueLink
    do { link = try await DialogueLink.open(dialogue) } catch let error as HostError {
      return (expected, Self.opened([DialogueRun.plain("no controller: \(error)")], expected))
    }
    let run = AttackRun(dialogue: dialogue, link: link)
    var found: [String] = []
    do { found = try await dialogue.role == .central ? run.connect() : run.serve() } catch {
      found = ["\(error)"]
    }
    await link.close()
    link.session.finish()
    if let mismatch = link.session.outcomes.last?.mismatch { found.insert("mismatch: \(mismatch)", at: 0) }
    return (expected, Self.opened(found.map { DialogueRun.plain($0) }, expected))
  }

  /// Replaces the lines that the expectation does not specify with the expected ones.
  private static func opened(_ found: [String], _ expected: [String]) -> [String] {
    var found = found
    for (index, line) in expected.enumerated() where index < found.count && line.hasSuffix("...") {
      let text = line.trimmingCharacters(in: CharacterSet(charactersIn: "."))
      if line.hasPrefix("...") ? found[index].contains(text) : found[index].hasPrefix(text) {
        found[index] = line
      }
    }
    return found
  }

  // MARK: Central

  private func connect() async throws -> [String] {
    var connections: [Connection] = []
    for number in 0..<dialogue.linkCount {
      connections.append(
        try await link.adapter.connect(
          to: SilentPeripheral.address(number), asking: LinkRequest(), timeout: .seconds(10), tap: nil))
    }
    var lines: [String] = []
    var plain = dialogue
    plain.expectation = dialogue.expectation.filter { Self.isOutcome($0) }
    if dialogue.action.first == "each" {
      plain.action.removeFirst()
      let (each, link) = (plain, link)
      let results = connections.map { connection in
        Task { try await DialogueRun(dialogue: each, link: link, connection: connection).result() }
      }
      for result in results { lines += try await result.value }
    } else if !dialogue.action.isEmpty, dialogue.action != ["none"] {
      lines = try await DialogueRun(dialogue: plain, link: link, connection: connections[0]).result()
    }
    return await lines + settledFacts(connections.first, nil)
  }

  // MARK: Peripheral

  private func serve() async throws -> [String] {
    let services = ServerDialogueDatabase(dialogue).services
    return try await link.adapter.advertise(
      DeviceAdvertisement(name: "Device", services: [.heartRate]), services: services
    ) { server in
      let application = link.loop.task { await push(server) }
      let lines = await settledFacts(nil, server)
      application.cancel()
      return lines
    }
  }

  private func push(_ server: GATTServer) async {
    for await event in server.events {
      guard case .subscribed(let central, let handle, let pushes) = event,
        let value = await server.attributes.first(where: { $0.handle == handle })?.value
      else { continue }
      if pushes.contains(.indication) {
        link.loop.task { try? await server.indicate(value, of: handle, to: central) }
      } else if pushes.contains(.notification) {
        try? await server.notify(value, of: handle, to: central)
      }
    }
  }

  // MARK: Results

  /// Facts at the end, after the dialogue has ended and its last packets have arrived. They are read until
  /// they are as expected, for at most a second.
  private func settledFacts(_ connection: Connection?, _ server: GATTServer?) async -> [String] {
    try? await eventually("the end of \(dialogue.name)", within: .seconds(20)) { link.session.isSettled }
    let expected = dialogue.expectation.filter { !Self.isOutcome($0) }.map { DialogueRun.plain($0) }
    let end = ContinuousClock.now + .seconds(1)
    var lines = await facts(connection, server)
    while lines.map({ DialogueRun.plain($0) }) != expected, ContinuousClock.now < end {
      await Task.yield()
      lines = await facts(connection, server)
    }
    return lines
  }

  private static func isOutcome(_ line: String) -> Bool {
    !["links ", "counted ", "value 0x"].contains { line.hasPrefix($0) }
  }

  private func facts(_ connection: Connection?, _ server: GATTServer?) async -> [String] {
    let counts = await self.counts(connection, server)
    var lines: [String] = []
    for line in dialogue.expectation where !Self.isOutcome(line) {
      let words = line.split(separator: " ").map { String($0) }
      switch words[0] {
      case "links": lines.append("links \(await link.adapter.linkCount)")
      case "value":
        let handle = AttributeHandle(UInt16(words[1].dropFirst(2), radix: 16) ?? 0)
        let value = await server?.attributes.first { $0.handle == handle }?.value
        lines.append("value \(words[1]) \(hexOf(value ?? []))")
      default: lines.append("counted \(words[1]) \(counts[words[1]].map { "\($0)" } ?? "?")")
      }
    }
    return lines
  }

  private func counts(_ connection: Connection?, _ server: GATTServer?) async -> [String: Int] {
    var counts: [String: Int] = [:]
    func add(_ value: Any, _ prefix: String) {
      for case (let label?, let number as Int) in Mirror(reflecting: value).children.map({
        ($0.label, $0.value)
      }) {
        counts["\(prefix).\(label)"] = number
      }
    }
    add(await link.adapter.hostStatistics, "host")
    if let connection { add(await connection.statistics, "link") }
    if let server { add(await server.statistics, "server") }
    return counts
  }
}

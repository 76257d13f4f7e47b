import BLEEmulation
import BLEHost
import BLELinux
import BLESensors
import BLEWire
import Dialogues
import Foundation
import SensorSessions
import TestKit
import TestPeer
import Testing

/// Devices that break rules (`Dialogues/odd.txt`): their values are received nevertheless, and the oddities
/// are reported.
@Suite(.timeLimit(.minutes(2))) struct OddDialogueTests {
  static let dialogues = DialogueFiles.dialogues(of: "odd").map { NamedDialogue(dialogue: $0) }

  @Test(arguments: dialogues) func givesItsValues(_ named: NamedDialogue) async throws {
    let dialogue = named.dialogue
    let link = try await DialogueLink.open(dialogue)
    let count = try #require(dialogue.action.count > 1 ? Int(dialogue.action[1]) : nil)
    // On the loop's thread, so that virtual time waits for it.
    var request = LinkRequest()
    if dialogue.action.last == "phy" { request.phy = .le2M }
    if dialogue.action.last == "data-length" { request.dataLength = 251 }
    let found = await withTaskExecutorPreference(link.loop.preference) { [request] in
      await stream(link, request, count: count)
    }
    await link.close()
    link.session.finish()
    #expect(Self.opened(found, dialogue.expectation) == dialogue.expectation)
    #expect(link.session.outcomes.compactMap { $0.mismatch?.description } == [])
  }

  /// Lines such as `| mtu-twice | Answers the MTU exchange twice. | bluez/bluez#2486 |` of the section.
  @Test func theTableHasEachDialogue() throws {
    let file = DialogueFiles.folder.deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent().appending(path: "CONFORMANCE.md")
    let sections = try String(contentsOf: file, encoding: .utf8).components(separatedBy: "\n## ")
    let section = try #require(sections.first { $0.hasPrefix("Devices that break rules") })
    let rows = section.split(separator: "\n").filter { $0.hasPrefix("| ") }.dropFirst()
    #expect(
      rows.map { String($0) }
        == Self.dialogues.map { "| \($0.dialogue.name) | \($0.dialogue.title) | \($0.dialogue.source) |" })
  }

  /// Streams, and returns the results in the form of the expectation.
  private func stream(_ link: DialogueLink, _ request: LinkRequest, count: Int) async -> [String] {
    var plan = DeviceSession.Plan(ScriptedPeripheral.defaultAddress)
    plan.patience = .seconds(20)
    plan.request = request
    let session = DeviceSession(plan, on: link.adapter)
    let profile = SensorProfile<HeartRateSession>(.none)
    let running = Task(executorPreference: link.loop.preference) { () -> HostError? in
      defer { profile.finish() }
      do throws(HostError) {
        try await session.run(profile)
        return nil
      } catch { return error }
    }
    var lines: [String] = []
    for await sample in profile.samples {
      lines.append("rate \(sample.measurement.beatsPerMinute)")
      if lines.count == count { break }
    }
    if lines.count == count {
      let facts = await profile.learned()
      if let percent = facts.battery?.percent { lines.append("battery \(percent)") }
      if let manufacturer = facts.manufacturer { lines.append("manufacturer \(manufacturer)") }
      if let location = facts.bodyLocation { lines.append("location \(location.rawValue)") }
    }
    running.cancel()
    let failure = await running.value
    let (links, strays) = await (session.linkCount, session.statistics.strayResponses)
    if links > 1 { lines.append("links \(links)") }
    if strays > 0 { lines.append("strays \(strays)") }
    lines += await session.remarks.map { "remark \($0)" }
    if let failure { lines.append("failure \(failure)") }
    return lines
  }

  /// Returns the findings; a text that contains the expected part is replaced by that part.
  private static func opened(_ found: [String], _ expected: [String]) -> [String] {
    zip(found, expected + Array(repeating: "", count: found.count)).map { line, part in
      for word in ["remark ", "failure "] where line.hasPrefix(word) && part.hasPrefix(word) {
        if line.contains(part.dropFirst(word.count)) { return part }
      }
      return part == "strays" && line.hasPrefix("strays ") ? part : line
    }
  }
}

import Foundation
import TestKit
import Testing

extension OverEachWay {
  /// `ringtap ring …` against the emulated ring with a history.
  @Suite final class RingCommandTests {
    /// A pseudo-terminal ends with its first host.
    private nonisolated static let ways = Way.hereWithEmulation.filter { $0 != .serial }

    private let scene: Scene

    init() throws { scene = try Scene() }
    isolated deinit { scene.end() }

    /// rsp-battery-64 of the protocol's vectors, with the values that their editors read in it.
    @Test(arguments: ways)
    func asks(_ way: Way) throws {
      let ring = try scene.emulatedRing(over: way)
      let battery = try scene.ringtap(reaching: ring, "ring", "battery", ring.address, "--json")
      battery.expectSuccess()
      #expect(battery.outputLines == [#"{"kind":"battery","level":64,"charging":false}"#])
      let refused = try scene.ringtap(reaching: ring, "ring", "hrv", ring.address)
      refused.expectFailure(saying: "0x39", "0xee")
      let unasked = try scene.ringtap(reaching: ring, "ring", "factory-reset", ring.address)
      unasked.expectFailure(saying: "--yes")
    }

    private struct Table: Decodable {
      var table: String
      var file: String
      var rows: Int
      var added: Int
    }

    /// Data from the first sync is kept, and no time occurs twice.
    @Test(arguments: ways)
    func syncsTwice(_ way: Way) throws {
      let ring = try scene.emulatedRing(over: way)
      let folder = scene.path("history")
      var tables: [String: [Substring]] = [:]
      for number in 1...2 {
        let result = try scene.ringtap(
          reaching: ring, "ring", "sync", ring.address, "--set-time", "--utc", "--output", folder, "--json")
        #expect(result.status == 0, "\(result.errors)")
        let outcomes = try result.objects(Table.self)
        #expect(outcomes.map(\.table).count == 7)
        for outcome in outcomes {
          let rows = try String(contentsOfFile: outcome.file, encoding: .utf8).split(separator: "\n")
            .dropFirst()
          #expect(rows.count == outcome.rows)
          #expect(Set(rows).isSuperset(of: tables[outcome.table] ?? []))
          let keys = rows.map { $0.split(separator: ",").prefix(2).joined(separator: ",") }
          #expect(Set(keys).count == rows.count)
          if number == 1 { #expect(outcome.added == outcome.rows) }
          tables[outcome.table] = Array(rows)
        }
      }
      #expect(try #require(tables["stress"]).count >= 6 * 48)
      #expect(try #require(tables["heart-rate"]).count >= 6 * 200)
      #expect(tables["hrv"] == [])
    }

    /// Ctrl-C ends a measurement cleanly, and the ring accepts further requests.
    @Test(arguments: ways)
    func stopsAMeasurement(_ way: Way) throws {
      let ring = try scene.emulatedRing(over: way)
      let program = try scene.startRingtap(
        reaching: ring, "ring", "realtime", "heart-rate", ring.address, "--json")
      try program.line(containing: #""value":7"#)
      program.send(SIGINT)
      let result = try program.finish()
      result.expectSuccess()
      let again = try scene.ringtap(
        reaching: ring, "ring", "steps", ring.address, "--days-ago", "1", "--json")
      again.expectSuccess()
      #expect(again.output.contains(#""kind":"activityLog""#))
    }
  }
}

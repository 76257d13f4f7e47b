import Foundation
import TestKit
import Testing

/// A daemon's heart rates in a real Prometheus.
@Suite(.timeLimit(.minutes(2))) struct PrometheusTests {
  /// The value is one that the emulated strap has sent, by its table.
  @Test func hasTheHeartRateThatIsRecorded() async throws {
    try await withFolder { folder in
      let (metrics, port) = (try freePort(), try freePort())
      try """
      {"directory": "\(folder)/captures", "statusSocket": "\(folder)/status", "metrics": "127.0.0.1:\(metrics)",
       "radio": {"transport": "virtual:heart-rate,rate=5,heart-rate=64-80"},
       "devices": [{"name": "chest", "address": "70:CB:0D:00:18:0D", "sensor": "heart-rate"}]}
      """.write(toFile: folder + "/ringtap.json", atomically: true, encoding: .utf8)
      try """
      global: {scrape_interval: 1s}
      scrape_configs: [{job_name: ringtap, static_configs: [{targets: ['127.0.0.1:\(metrics)']}]}]
      """.write(toFile: folder + "/prometheus.yml", atomically: true, encoding: .utf8)
      let daemon = try Program(
        Place.ringtap, ["daemon", folder + "/ringtap.json"], input: .nothing,
        environment: ["RINGTAP_NO_REMEMBER": "1"])
      defer { daemon.send(SIGKILL) }
      let server = try Program(
        Place.tool("prometheus"),
        [
          "--config.file=\(folder)/prometheus.yml", "--storage.tsdb.path=\(folder)/data",
          "--web.listen-address=127.0.0.1:\(port)", "--log.level=error",
        ], input: .nothing)
      defer { server.send(SIGKILL) }
      var found: [Double] = []
      try await eventually("Prometheus has a heart rate", within: .seconds(40)) {
        let answer = try await Program.run(
          "curl",
          [
            "-sS",
            "http://127.0.0.1:\(port)/api/v1/query?query=ringtap_heart_rate_bpm%7Bdevice%3D%22chest%22%7D",
          ])
        found = Self.values(answer.output)
        return !found.isEmpty
      }
      let page = try await Program.run("curl", ["-sS", "--fail", "http://127.0.0.1:\(metrics)/metrics"])
      try page.output.write(toFile: folder + "/page", atomically: true, encoding: .utf8)
      let check = try await Program.run(
        "bash", ["-c", "promtool check metrics <\"$1\"", "bash", folder + "/page"])
      #expect(check.status == 0 && (check.output + check.errors).isEmpty, "\(check.output)\(check.errors)")
      daemon.send(SIGTERM)
      #expect(try await daemon.ended(within: .seconds(20)).status == 0)
      let names = try FileManager.default.subpathsOfDirectory(atPath: folder + "/captures")
      let table = try #require(names.first { $0.hasSuffix("heart_rate.csv") })
      let text = try String(contentsOfFile: "\(folder)/captures/\(table)", encoding: .utf8)
      let recorded = text.split(separator: "\n").dropFirst().compactMap {
        Double($0.split(separator: ",")[1])
      }
      #expect(found.count == 1 && recorded.contains(found[0]), "\(found)")
    }
  }

  /// `{"data":{"result":[{"metric":{…},"value":[TIME,"72"]}]}}`
  private static func values(_ text: String) -> [Double] {
    guard let object = try? JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any],
      let data = object["data"] as? [String: Any], let result = data["result"] as? [[String: Any]]
    else { return [] }
    return result.compactMap { (($0["value"] as? [Any])?.last as? String).flatMap { Double($0) } }
  }
}

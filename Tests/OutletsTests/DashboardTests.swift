import Foundation
import TestKit
import Testing

/// The Grafana dashboard, `Tools/grafana/ringtap.json`.
@Suite(.timeLimit(.minutes(3))) struct DashboardTests {
  private struct Dashboard: Decodable {
    struct Panel: Decodable {
      struct Target: Decodable {
        var expr: String
      }
      var title: String
      var targets: [Target]?
    }
    var panels: [Panel]
  }

  private struct Answer: Decodable {
    struct Content: Decodable {
      struct Series: Decodable {
        var metric: [String: String]
      }
      var result: [Series]
    }
    var data: Content
  }

  /// Each panel's query, sent as Grafana sends it, finds data after all kinds of sensors were recorded with
  /// --influx and a daemon was scraped.
  @Test func hasDataInEachPanel() async throws {
    try await withFolder { folder in
      let start = Int(Date().timeIntervalSince1970)
      let database = try await VictoriaMetrics(in: folder)
      let group = try Running(
        [
          "capture", "ring", "heart-rate", "thermometer", "cycling", "polar:ecg,acc", "--output",
          folder + "/group",
          "--transport", "virtual:ring,rate=75+heart-rate+core+cycling+polar", "--duration", "6", "--to",
          "influx+" + database.writeURL,
        ], in: folder)
      try await Self.addMetrics(to: database, folder)
      #expect(try await group.status("capture") == 0, "\(group.said)")
      try await database.request("/internal/force_flush")
      let file = Data(contents(Place.root + "/Tools/grafana/ringtap.json"))
      let panels = try JSONDecoder().decode(Dashboard.self, from: file).panels
      let queries = panels.flatMap { panel in (panel.targets ?? []).map { (panel.title, $0.expr) } }
      #expect(queries.count >= 15)
      for (title, query) in queries {
        let answer = try await database.request(
          "/api/v1/query_range",
          [
            "--data-urlencode", "query=" + query.replacingOccurrences(of: "$device", with: ".*"),
            "-d", "start=\(start)&end=\(Int(Date().timeIntervalSince1970) + 1)&step=1",
          ])
        let series = try JSONDecoder().decode(Answer.self, from: Data(answer.utf8)).data.result
        #expect(!series.isEmpty, "\(title): \(query)")
        #expect(series.allSatisfy { $0.metric["device"] != nil }, "\(title): \(query)")
      }
    }
  }

  /// Imports a daemon's metrics page, as a scraper would.
  private static func addMetrics(to database: VictoriaMetrics, _ folder: String) async throws {
    let port = try freePort()
    try """
    {"directory": "\(folder)/captures", "statusSocket": "\(folder)/status", "metrics": "127.0.0.1:\(port)",
     "radio": {"transport": "virtual:heart-rate"},
     "devices": [{"name": "chest", "address": "70:CB:0D:00:18:0D", "sensor": "heart-rate"}]}
    """.write(toFile: folder + "/ringtap.json", atomically: true, encoding: .utf8)
    let daemon = try Running(["daemon", folder + "/ringtap.json"], in: folder)
    // The page lists devices only once there is a radio.
    try await eventually("the page shows the device") {
      let page = try await Program.run("curl", ["-sS", "http://127.0.0.1:\(port)/metrics"])
      try page.output.write(toFile: folder + "/page", atomically: true, encoding: .utf8)
      return page.output.contains("ringtap_lost_total{")
    }
    try await database.request("/api/v1/import/prometheus", ["--data-binary", "@\(folder)/page"])
    daemon.signal(SIGTERM)
    _ = try await daemon.status("daemon")
  }
}

import BLELinux
import BLEWire
import Foundation
import TestKit
import Testing

@testable import Outlets
import Recording

/// Recordings that are sent to a database while they are made.
@Suite(.timeLimit(.minutes(3))) struct InfluxWriterTests {
  private static let strap = "virtual:heart-rate,rate=10"

  /// Starts a recording of a strap that runs until it is stopped.
  private static func record(_ url: String, _ folder: String, _ more: String...) throws -> Running {
    try Running(
      ["heart-rate", "--transport", strap, "--output", folder + "/ride", "--to", "influx+" + url] + more,
      in: folder)
  }

  private static func recorded(_ folder: String) -> Int {
    max(0, rows(folder + "/ride/heart_rate.csv").count - 1)
  }

  /// The lines that `convert` makes of the same recording.
  private static func converted(_ capture: String) async throws -> Set<String> {
    let run = try await Ringtap.run(["convert", capture, "--to", "influx", "--output", "-"])
    #expect(run.status == 0, "\(run.errors)")
    return Set(run.outputLines)
  }

  /// Time and value of each row that has a value.
  private static func column(_ name: String, of path: String) throws -> [(milliseconds: Int64, value: Double)]
  {
    let lines = rows(path).map { $0.split(separator: ",", omittingEmptySubsequences: false) }
    let place = try #require(lines[0].firstIndex { $0 == name })
    return try lines.dropFirst().filter { !$0[place].isEmpty }.map {
      (try #require(Int64($0[0])) / 1_000_000, try #require(Double($0[place])))
    }
  }

  // MARK: A real server

  /// A real database returns exactly the values of the tables.
  @Test func aDatabaseHasWhatIsRecorded() async throws {
    try await withFolder { folder in
      let database = try await VictoriaMetrics(in: folder)
      let ride = try Self.record(database.writeURL, folder, "--count", "60")
      #expect(try await ride.status("ride") == 0, "\(ride.said)")
      for (name, table, column) in [
        ("heart_rate_bpm", "heart_rate", "bpm"), ("heart_rate_energy_kj", "heart_rate", "energy_kj"),
        ("rr_intervals_rr_1024ths", "rr_intervals", "rr_1024ths"),
      ] {
        let wanted = try Self.column(column, of: "\(folder)/ride/\(table).csv")
        let series = try await database.export(name, count: wanted.count)
        let found = try #require(series.first)
        #expect(series.count == 1 && found.metric["device"] == "70:CB:0D:00:18:0D", "\(found.metric)")
        #expect(found.timestamps == wanted.map(\.milliseconds) && !wanted.isEmpty, "\(name)")
        #expect(found.values == wanted.map(\.value), "\(name)")
      }
      #expect(try Self.column("bpm", of: folder + "/ride/heart_rate.csv").count == 60)
    }
  }

  /// The database is unavailable for a while during the recording: no value is missing.
  @Test func aDatabaseThatComesBack() async throws {
    try await withFolder { folder in
      let database = try await VictoriaMetrics(in: folder)
      let ride = try Self.record(database.writeURL, folder)
      try await eventually("it has some") { try await !database.export("heart_rate_bpm").isEmpty }
      try await database.stop()
      try await eventually("that is told") { ride.said.contains("/write does not accept lines: ") }
      let before = Self.recorded(folder)
      try await eventually("it records without") { Self.recorded(folder) > before + 20 }
      try await database.start()
      try await eventually("it goes on") { ride.said.contains("/write accepts lines again") }
      ride.signal(SIGINT)
      #expect(try await ride.status("ride") == 0, "\(ride.said)")
      let wanted = try Self.column("bpm", of: folder + "/ride/heart_rate.csv")
      let found = try #require(
        try await database.export("heart_rate_bpm", count: wanted.count).first)
      let points = zip(found.timestamps, found.values).map { "\($0) \($1 ?? .nan)" }
      #expect(Set(points) == Set(wanted.map { "\($0.milliseconds) \($0.value)" }) && wanted.count > 40)
    }
  }

  // MARK: Servers

  /// The lines of each kind of sensor equal those that `convert` makes of the recording's arrays, which have
  /// all digits.
  @Test func writesTheLinesOfAConversion() async throws {
    try await withFolder { folder in
      let server = try await Endpoint(in: folder, "204")
      let group = try Running(
        [
          "capture", "ring", "heart-rate", "thermometer", "cycling", "polar:ecg,acc", "--output",
          folder + "/group",
          "--transport", "virtual:ring,rate=75+heart-rate+core+cycling+polar", "--format", "npy",
          "--duration", "4", "--rows", "all",
          "--to", "influx+" + server.url,
        ], in: folder)
      #expect(try await group.status("capture") == 0, "\(group.said)")
      var wanted: Set<String> = []
      for name in Files.names(in: folder + "/group") where name.contains("-") {
        wanted.formUnion(try await Self.converted("\(folder)/group/\(name)"))
      }
      let taken = server.lines
      #expect(taken == wanted, "\(taken.symmetricDifference(wanted).sorted().prefix(4))")
      let tables = Set(wanted.map { $0.prefix { $0 != "," } })
      #expect(
        tables.isSuperset(of: [
          "ppg", "accelerometer", "spo2", "samples", "heart_rate", "rr_intervals", "temperature", "cycling",
          "ecg",
        ]), "\(tables)")
      // One post a second, one for each batch that fills up earlier, and one at the end.
      let times = try server.posts.map(\.time)
      let full = wanted.reduce(0) { $0 + $1.utf8.count + 1 } >> 17
      #expect(times.count <= Int(times[times.count - 1] - times[0]) + 2 + full, "\(times)")
    }
  }

  /// The server is killed in the middle of a recording, and another one replaces it.
  @Test func aServerThatIsKilled() async throws {
    try await withFolder { folder in
      let server = try await Endpoint(in: folder, "204", "still")
      let ride = try Self.record(server.url, folder)
      try await eventually("one stands still") { try server.posts.contains { $0.answer == "still" } }
      try await server.kill()
      try await eventually("that is told") { ride.said.contains("/write does not accept lines: ") }
      try await server.start()
      try await eventually("it goes on") { ride.said.contains("/write accepts lines again") }
      ride.signal(SIGINT)
      #expect(try await ride.status("ride") == 0, "\(ride.said)")
      #expect(server.lines.filter { $0.hasPrefix("heart_rate,") }.count == Self.recorded(folder))
    }
  }

  @Test func aServerThatStandsStill() async throws {
    try await withFolder { folder in
      let server = try await Endpoint(in: folder, "still")
      let ride = try Self.record(server.url, folder, "--count", "30")
      #expect(try await ride.status("ride", within: .seconds(20)) == 4, "\(ride.said)")
      #expect(Self.recorded(folder) == 30 && ride.text.contains("0 dropped here of 30"), "\(ride.text)")
      #expect(ride.said.contains("/write has confirmed 0 lines; "), "\(ride.said)")
      #expect(ride.said.contains(" are still waiting (") && ride.said.contains("the recording is complete"))
      let posts = try server.posts.count
      // An interrupt does not have to wait long.
      let other = try Self.record(server.url, folder + "/other")
      try await eventually("it stands still again") { try server.posts.count > posts }
      let before = ContinuousClock.now
      other.signal(SIGINT)
      #expect(try await other.status("ride") == 4, "\(other.said)")
      #expect(ContinuousClock.now - before < .seconds(5), "\(other.said)")
      #expect(other.said.contains(" are still waiting ("), "\(other.said)")
    }
  }

  @Test func aServerThatIsNotThere() async throws {
    try await withFolder { folder in
      let port = try freePort()
      let ride = try Self.record("http://127.0.0.1:\(port)/write", folder, "--count", "30")
      #expect(try await ride.status("ride") == 4, "\(ride.said)")
      #expect(Self.recorded(folder) == 30 && ride.text.contains("0 dropped here of 30"), "\(ride.text)")
      #expect(
        ride.said.contains("127.0.0.1:\(port)/write does not accept lines: Failed to connect"), "\(ride.said)"
      )
      #expect(ride.said.contains(" are still waiting (Failed to connect"), "\(ride.said)")
    }
  }

  /// The server answers with an error of its own, then with a request to wait two seconds.
  @Test func aServerThatTakesThemLater() async throws {
    try await withFolder { folder in
      let server = try await Endpoint(in: folder, "500", "429", "204")
      let ride = try Self.record(server.url + "?db=rides", folder, "--duration", "6", "--format", "npy")
      #expect(try await ride.status("ride") == 0, "\(ride.said)")
      #expect(server.lines == (try await Self.converted(folder + "/ride")))
      #expect(ride.said.contains("/write does not accept lines: HTTP status 500: "), "\(ride.said)")
      #expect(ride.said.contains("/write accepts lines again"))
      let posts = try server.posts
      #expect(posts[2].time - posts[1].time >= 2 && posts[0].lines == posts[2].lines)
      #expect(posts.allSatisfy { $0.query == ["db": "rides", "precision": "ns"] })
    }
  }

  /// The server gives a reason that contains terminal control characters. A redirect, or a success status
  /// that a database would not send, also means that it accepted nothing.
  @Test(arguments: ["400", "401", "301", "200"]) func aServerThatRefuses(_ status: String) async throws {
    try await withFolder { folder in
      let server = try await Endpoint(in: folder, status)
      let ride = try Self.record(server.url, folder, "--count", "30")
      #expect(try await ride.status("ride") == 4, "\(ride.said)")
      #expect(Self.recorded(folder) == 30 && ride.text.contains("0 dropped here of 30"), "\(ride.text)")
      #expect(ride.said.contains("/write refuses lines: HTTP status \(status): "), "\(ride.said)")
      let lines = ride.said.split(separator: "\n")
      #expect(lines.count { $0.contains("refuses lines") } == 1)
      #expect(
        !ride.said.utf8.contains(0x1B) && !ride.said.contains("\u{202E}") && !ride.said.utf8.contains(0x07))
      #expect(!lines.contains { $0.hasPrefix("ringtap: all is well") })
      #expect(ride.said.utf8.count < 4_000)
      let posts = try server.posts
      #expect(posts.allSatisfy { $0.path == "/write" } && server.lines.isEmpty)
      let refused = posts.reduce(0) { $0 + $1.lines }
      #expect(ride.said.contains("; \(refused) were refused (HTTP status \(status)"), "\(ride.said)")
    }
  }

  /// The token is read from a file and appears in no process list.
  @Test func aToken() async throws {
    try await withFolder { folder in
      try "s3cret-token==\nanother line\n".write(toFile: folder + "/token", atomically: true, encoding: .utf8)
      let server = try await Endpoint(in: folder, "204")
      let ride = try Self.record(
        server.url + "?token-file=\(folder)/token", folder, "--count", "5")
      #expect(try await ride.status("ride") == 0, "\(ride.said)")
      let posts = try server.posts
      #expect(!posts.isEmpty && posts.allSatisfy { $0.authorization == "Token s3cret-token==" })
    }
  }

  /// A server's certificate is verified: a server with an untrusted certificate gets nothing.
  @Test func aServerThatNobodyVouchesFor() async throws {
    try await withFolder { folder in
      let key = try await Program.run(
        "openssl",
        [
          "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", folder + "/taken.pem", "-out",
          folder + "/cert.pem",
          "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1",
        ])
      #expect(key.status == 0, "\(key.errors)")
      let certificate = try String(contentsOfFile: folder + "/cert.pem", encoding: .utf8)
      let both = try String(contentsOfFile: folder + "/taken.pem", encoding: .utf8) + certificate
      try both.write(toFile: folder + "/taken.pem", atomically: true, encoding: .utf8)
      let server = try await Endpoint(in: folder, "204")
      let url = "https://127.0.0.1:\(server.port)/write"
      let ride = try Self.record(url, folder, "--count", "5")
      #expect(try await ride.status("ride") == 4, "\(ride.said)")
      #expect(ride.said.contains("certificate"), "\(ride.said)")
      #expect(try server.posts.isEmpty)
      // The same server, with its certificate trusted.
      let trusting = try Self.record(
        url + "?ca=\(folder)/cert.pem", folder + "/again", "--count", "5")
      #expect(try await trusting.status("ride") == 0, "\(trusting.said)")
      #expect(server.lines.filter { $0.hasPrefix("heart_rate,") }.count == 5)
    }
  }

  /// More lines than can wait: the dropped ones are counted, all others arrive.
  @Test func countsWhatFoundNoRoom() async throws {
    try await withFolder { folder in
      let server = try await Endpoint(in: folder, "hold", "204")
      let plan = try InfluxPlan(server.url, token: nil, certificates: nil, version: "test")
      let writer = try InfluxWriter(plan) { _ in }
      defer { writer.abandon() }
      let address = try #require(DeviceAddress("70:CB:0D:00:A1:B2"))
      let output = writer.output(of: SampleDevice(address, kind: "polar"))
      let columns: [RecordedColumn] = [.time("time_ns"), RecordedColumn("ecg_uv", .int32)]
      output.open(SampleTable(number: 0, name: "ecg", columns: columns))
      let count = 400_000
      for number in 1...count { output.take([UInt64(number), UInt64(number)], of: 0) }
      output.endTurn()
      try server.release()
      await writer.finish()
      let problem = try #require(writer.problem)
      let taken = server.lines
      #expect(taken.count < count && taken.count > 200_000)
      #expect(
        problem.contains("confirmed \(taken.count) lines; \(count - taken.count) were dropped"), "\(problem)"
      )
    }
  }

  /// Without libcurl nothing is recorded, and the message says what to install.
  @Test func withoutTheLibrary() async throws {
    try await withFolder { folder in
      for name in ["libcurl.so.4", "libcurl-gnutls.so.4"] {
        try "none".write(toFile: "\(folder)/\(name)", atomically: true, encoding: .utf8)
      }
      let ride = try Running(
        [
          "heart-rate", "--transport", Self.strap, "--output", folder + "/ride", "--count", "1", "--to",
          "influx+http://127.0.0.1:1/write",
        ], in: folder, environment: ["LD_LIBRARY_PATH": folder])
      #expect(try await ride.status("ride") == 1)
      #expect(
        ride.said.contains("writing to a database needs libcurl (")
          && ride.said.contains("apt install libcurl4"),
        "\(ride.said)")
      #expect(!Files.exists(folder + "/ride"))
    }
  }

  // MARK: URLs

  @Test(arguments: [
    ("http://h:8428/write", "http://h:8428/write?precision=ns"),
    ("https://h/api/v2/write?org=a&bucket=b", "https://h/api/v2/write?org=a&bucket=b&precision=ns"),
    ("http://h/write?precision=ns&db=x", "http://h/write?precision=ns&db=x"),
  ]) func takesURLs(_ text: String, _ url: String) throws {
    let plan = try InfluxPlan(text, token: nil, certificates: nil, version: "test")
    #expect(plan.url == url && !plan.place.contains("?"))
  }

  @Test(arguments: [
    ("ftp://h/write", "begin with http"), ("h:8428/write", "begin with http"), ("http://h:8428", "no path"),
    ("http://h:8428/", "no path"), ("http:///write", "no host"), ("http://u:pass@h/write", "token-file=FILE"),
    ("http://h/write?u=a&p=pass", "token-file=FILE"), ("http://h/write?precision=ms", "nanoseconds"),
    ("http://h/wr ite", "space"), ("http://h/write#x", "'#'"), ("", "begin with http"),
  ]) func refusesURLs(_ text: String, _ why: String) {
    let error = #expect(throws: InfluxPlan.ParseError.self) {
      try InfluxPlan(text, token: nil, certificates: nil, version: "test")
    }
    #expect(
      error?.description.contains(why) == true && error?.description.contains("pass@") == false,
      "\(error as Any)")
  }

  @Test(arguments: ["", "a\r\nX: y", "ü"]) func refusesTokens(_ token: String) {
    #expect(throws: InfluxPlan.ParseError.self) {
      try InfluxPlan("http://h/write", token: token, certificates: nil, version: "test")
    }
  }
}

import BLELinux
import Foundation
import JSONText
import Recording
import TestKit
import Testing

import CaptureTools

/// Brokers that are unreachable or refuse: the message gives the remedy, and the capture is complete anyway.
@Suite(.timeLimit(.minutes(2))) struct FleetRefusalTests {
  private static func capture(
    _ folder: String, _ more: [String], environment: [String: String] = [:]
  ) async throws -> (status: Int32, said: String) {
    let run = try Running(
      [
        "capture", "--transport", "virtual:ring,rate=300", "--count", "90", "--output", folder + "/walk",
      ] + more, in: folder, environment: environment)
    let status = try await run.status("capture")
    // The recording is complete whether or not publishing worked.
    #expect(rows(folder + "/walk/ppg.csv").count > 25)
    let session = try SessionDocument.read(in: folder + "/walk")
    #expect(session["endReason"]?.text == "count reached")
    return (status, run.said)
  }

  @Test func nobodyListens() async throws {
    try await withFolder { folder in
      let port = try freePort()
      let (status, said) = try await Self.capture(folder, ["--to", "mqtt://127.0.0.1:\(port)?patience=1"])
      #expect(status == 4)
      #expect(
        said.contains(
          "cannot reach the broker at 127.0.0.1:\(port) (connect: Connection refused); start it, or correct the URL"
        ))
      #expect(
        said.contains("`ringtap publish \(folder)/walk mqtt://127.0.0.1:\(port)/ringtap` sends the rest"))
      let collect = try await Ringtap.run(["collect", "mqtt://127.0.0.1:\(port)", "-o", folder + "/c"])
      #expect(
        collect.status == 1 && collect.errorLines.last?.contains("start it, or correct the URL") == true)
    }
  }

  @Test func nobodyIsSubscribed() async throws {
    try await withFolder { folder in
      let broker = try MosquittoBroker(in: folder)
      try await broker.start()
      let (status, said) = try await Self.capture(folder, ["--to", broker.url + "?patience=1"])
      #expect(status == 4)
      #expect(said.contains("no collector is subscribed to \(broker.url); start `ringtap collect"), "\(said)")
    }
  }

  @Test func wrongPassword() async throws {
    try await withFolder { folder in
      let passwords = folder + "/passwords"
      let made = try Running(
        "mosquitto_passwd", ["-c", "-b", passwords, "nurse", "right"], in: folder)
      #expect(try await made.status("mosquitto_passwd") == 0)
      let broker = try MosquittoBroker(in: folder, ["allow_anonymous false", "password_file \(passwords)"])
      try await broker.start()
      let url = broker.url.replacingOccurrences(of: "//", with: "//nurse@")
      let (status, said) = try await Self.capture(
        folder, ["--to", url + "?patience=1"], environment: ["RINGTAP_MQTT_PASSWORD": "wrong"])
      #expect(status == 4)
      #expect(said.contains("refuses user 'nurse'") && said.contains("password-file=FILE"), "\(said)")
      #expect(!said.contains("wrong"))
      // The correct password, read from a file, sends the pending data.
      try "right\n".write(toFile: folder + "/password", atomically: true, encoding: .utf8)
      let collect = try Running(
        [
          "collect", url, "-o", folder + "/collected", "--sessions", "1", "--password-file",
          folder + "/password",
        ],
        in: folder)
      try await eventually("it collects") { collect.said.contains("collecting from") }
      let publish = try await Ringtap.run(
        ["publish", folder + "/walk", url, "--password-file", folder + "/password"])
      #expect(publish.status == 0, "\(publish.errorLines)")
      #expect(try await collect.status("collect") == 0)
      try expectCollected(folder + "/walk", in: folder + "/collected")
    }
  }

  @Test func topicThatIsNotAllowed() async throws {
    try await withFolder { folder in
      try "topic read #\ntopic write fleet/+/status\n".write(
        toFile: folder + "/acl", atomically: true, encoding: .utf8)
      let broker = try MosquittoBroker(in: folder, ["allow_anonymous true", "acl_file \(folder)/acl"])
      try await broker.start()
      let (status, said) = try await Self.capture(folder, ["--to", broker.url + "?name=p&patience=1"])
      #expect(status == 4)
      #expect(said.contains("the broker refuses messages to fleet/p/"), "\(said)")
      #expect(said.contains("allow it in the broker's access control"))
    }
  }

  // MARK: Certificates

  /// Creates a certificate authority, and a certificate that it signed for a host.
  private static func certify(_ host: String, in folder: String) async throws {
    let script = """
      set -e; cd '\(folder)'
      openssl req -x509 -newkey rsa:2048 -nodes -days 2 -keyout ca.key -out ca.pem -subj /CN=authority
      openssl req -newkey rsa:2048 -nodes -keyout server.key -out server.csr -subj '/CN=\(host)'
      printf 'subjectAltName=DNS:\(host)' > names
      openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names -out server.pem
      openssl req -x509 -newkey rsa:2048 -nodes -days 2 -keyout other.key -out other.pem -subj /CN=other
      """
    let run = try Running("/bin/bash", ["-c", script], in: folder)
    #expect(try await run.status("openssl") == 0, "\(run.said)")
  }

  private static func encrypted(_ folder: String) throws -> MosquittoBroker {
    try MosquittoBroker(
      in: folder, isEncrypted: true,
      [
        "allow_anonymous true", "cafile \(folder)/ca.pem", "certfile \(folder)/server.pem",
        "keyfile \(folder)/server.key",
      ])
  }

  @Test func encryptedAndTrusted() async throws {
    try await withFolder { folder in
      try await Self.certify("localhost", in: folder)
      let broker = try Self.encrypted(folder)
      try await broker.start()
      let url = broker.url.replacingOccurrences(of: "127.0.0.1", with: "localhost")
      let collect = try Running(
        ["collect", url, "-o", folder + "/collected", "--sessions", "1", "--ca", folder + "/ca.pem"],
        in: folder)
      try await eventually("it collects") { collect.said.contains("collecting from") }
      let (status, said) = try await Self.capture(
        folder, ["--to", "\(url)?ca=\(folder)/ca.pem&patience=10"])
      #expect(status == 0, "\(said)")
      #expect(try await collect.status("collect") == 0)
      try expectCollected(folder + "/walk", in: folder + "/collected")
    }
  }

  @Test func certificatesThatDoNotMatch() async throws {
    try await withFolder { folder in
      try await Self.certify("broker.invalid", in: folder)
      let broker = try Self.encrypted(folder)
      try await broker.start()
      let url = broker.url.replacingOccurrences(of: "127.0.0.1", with: "localhost")
      let (status, said) = try await Self.capture(
        folder, ["--to", "\(url)?ca=\(folder)/ca.pem&patience=1"])
      #expect(status == 4)
      #expect(
        said.contains("is for another host than 'localhost'; use the name in the certificate"), "\(said)")
      // Another authority; a file that is not a certificate; the system's authorities; no encryption.
      let wrong = [
        (["--ca", folder + "/other.pem"], "cannot be verified with \(folder)/other.pem"),
        (["--ca", folder + "/none.pem"], "cannot read \(folder)/none.pem"),
        ([], "cannot be verified with the system's certificates"),
      ]
      for (options, words) in wrong {
        let run = try await Ringtap.run(
          ["publish", folder + "/walk", url, "--patience", "0.5"] + options)
        #expect(run.status == 1)
        #expect(run.errorLines.last?.contains(words) == true, "\(run.errorLines)")
      }
      let plain = try await Ringtap.run(
        [
          "publish", folder + "/walk", url.replacingOccurrences(of: "mqtts", with: "mqtt"), "--patience",
          "0.5",
        ])
      #expect(
        plain.status == 1 && plain.errorLines.last?.contains("check that it runs") == true,
        "\(plain.errorLines)")
    }
  }

  // MARK: Usage

  @Test(arguments: [
    (["capture", "--to", "broker.local"], "mqtt://"),
    (["capture", "--to", "mqtt://h:99999"], "not a port"),
    (["capture", "--to", "mqtt://h?name=../x"], "not a name"),
    (["capture", "--to", "mqtt://h?backlog=x"], "4k to 1048576G bytes"),
    (["capture", "--to", "mqtt://h?patience=0"], "above 0, at most 1000000 seconds"),
    (["capture", "--to", "mqtt://h?as=x"], "fleet or home-assistant"),
    (["capture", "--to", "mqtt://h?as=home-assistant&name=x"], "no parameter 'name'"),
    (["capture", "--to", "mqtt://h?ca"], "'ca' has no value"),
    (["capture", "--to", "mqtt://h?ca=a&ca=b"], "'ca' is given twice"),
    (["capture", "--to", "mqtt://h", "--to", "mqtt://i"], "at most one"),
    (["capture", "--to", "mqtt://h", "--format", "npy"], "--format csv"),
    (["capture", "--to", "influx+http://h"], "no path"),
    (["capture", "--to", "lsl"], "lsl:"), (["capture", "--to", "lsl:", "--to", "lsl:"], "given twice"),
    (["capture", "--to", "mqtt://u:secret@h?x=1"], "no parameter 'x'"),
    (["capture", "--to", "redis://u:secret@h"], "'redis' is not an output"),
    (["capture", "--to", "osc://h"], "a host and a port"),
    (["capture", "--to", "mqtt://h", "--publish-patience", "5"], "need --publish"),
    (["cycling", "--to", "mqtt://h"], "--output"),
    // The spellings of version 0.2.
    (["capture", "--publish", "broker.local"], "mqtt://"),
    (["capture", "--publish", "mqtt://h:99999"], "not a port"),
    (["capture", "--publish", "mqtt://h", "--publish-as", "../x"], "not a name"),
    (["capture", "--publish", "mqtt://h", "--publish-backlog", "x"], "4k to 1048576G bytes"),
    (["capture", "--publish", "mqtt://h", "--format", "npy"], "--format csv"),
    (["capture", "--publish-as", "x"], "--publish"),
    (["cycling", "--publish", "mqtt://h"], "--output"),
    (["collect", "mqtt://h"], "--output"),
    (["collect", "mqtt://h", "-o", "x", "--name", "a/b"], "not a name"),
    (["collect", "mqtt://h", "-o", "x", "--sessions", "0"], "--sessions"),
  ])
  func wrongUsage(_ arguments: [String], _ word: String) async throws {
    let run = try await Ringtap.run(arguments)
    #expect(run.status == 2)
    #expect(run.errorLines.contains { $0.contains(word) }, "\(run.errorLines)")
    #expect(!run.errors.contains("secret"))
  }

  /// The spellings of version 0.2 work, and say what to type instead.
  @Test func formerSpellings() async throws {
    try await withFolder { folder in
      let run = try await Ringtap.run([
        "capture", "--transport", "virtual:ring", "--output", folder + "/walk", "--count", "30", "--stream",
        "-",
        "--influx", "http://127.0.0.1:1/write",
      ])
      #expect(run.status == 4, "\(run.errors)")
      #expect(run.output.contains(#""table":"ppg""#))
      for (former, now) in [("--stream", "--to -"), ("--influx", "--to influx+http://…")] {
        #expect(
          run.errorLines.contains { $0.contains("\(former) is now \(now), see `ringtap help outputs`") },
          "\(run.errors)")
      }
    }
  }

  @Test func nothingToPublish() async throws {
    try await withFolder { folder in
      let run = try await Ringtap.run(["publish", folder, "mqtt://127.0.0.1"])
      #expect(run.status == 1)
      #expect(
        run.errorLines.last?.hasSuffix(
          "\(folder) has no text tables; give a capture's directory (--format csv)") == true)
    }
  }
}

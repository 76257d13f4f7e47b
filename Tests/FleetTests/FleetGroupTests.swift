import BLEWire
import Foundation
import TestKit
import Testing

@testable import Fleet

/// Collectors that share the publishers of one broker.
@Suite(.timeLimit(.minutes(3))) struct FleetGroupTests {
  private static let names = ["one", "two", "three"]

  /// Six rings and three collectors. One collector is killed while it collects, and the broker loses its
  /// state in between. Each table is complete at one collector, byte for byte.
  @Test func publishersOfADeadCollectorGoToTheOthers() async throws {
    try await withFolder { folder in
      let broker = try MosquittoBroker(in: folder)
      try await broker.start()
      let collectors = try Self.names.map { name in
        try Running(
          ["collect", broker.url, "-o", "\(folder)/\(name)", "--name", name, "--group", "ward", "--json"],
          in: folder)
      }
      try await eventually("they collect") { collectors.allSatisfy { $0.said.contains("collecting from") } }
      let capture = try Running(
        [
          "capture", "--transport", "virtual:ring,devices=6,rate=60,real-time", "--rings", "6", "--duration",
          "30",
          "--output", folder + "/walk", "--to", broker.url + "?patience=60",
        ], in: folder)
      func sessions(_ name: String) -> Int { Self.files("\(folder)/\(name)", "ppg.csv").count }
      try await eventually("all are collected", within: .seconds(30)) {
        Self.names.reduce(0) { $0 + sessions($1) } >= 6
      }
      // The collector with the most sessions.
      let victim = try #require(
        Self.names.indices.max { sessions(Self.names[$0]) < sessions(Self.names[$1]) })
      let (had, others) = (sessions(Self.names[victim]), Self.names.indices.filter { $0 != victim })
      #expect(had > 0)
      try await collectors[victim].kill()
      try await eventually("others have its publishers", within: .seconds(30)) {
        others.reduce(0) { $0 + sessions(Self.names[$1]) } >= 6
      }
      await broker.kill()
      try await broker.start()
      // Status 3: six links exceed the air time, so rings drop frames.
      let status = try await capture.status("capture", within: .seconds(150))
      #expect([0, 3].contains(status), "\(capture.said)")
      for index in others { collectors[index].signal(SIGINT) }
      for index in others { _ = try await collectors[index].status("collect", within: .seconds(20)) }

      let captures = try FileManager.default.contentsOfDirectory(atPath: folder + "/walk").filter {
        !$0.hasPrefix(".")
      }
      #expect(captures.count == 6)
      for name in captures {
        let path = "\(folder)/walk/\(name)"
        let session = try #require(try PublishCursor.read(in: path)).session
        let whole = Self.names.filter { collector in
          Self.files("\(folder)/\(collector)", "session.json").contains { $0.contains(session) }
        }
        #expect(whole.count == 1, "\(name): \(whole)")
        guard let place = whole.first else { continue }
        try expectCollected(path, in: "\(folder)/\(place)")
      }
    }
  }

  private static func files(_ folder: String, _ name: String) -> [String] {
    ((try? FileManager.default.subpathsOfDirectory(atPath: folder)) ?? []).filter {
      $0.hasSuffix("/" + name)
    }
  }

  // MARK: Without a broker

  /// Collectors and the messages that the broker retains for them.
  private final class Ward {
    var groups: [String: CollectorGroup] = [:]
    var retained: [String: [UInt8]] = [:]
    var now = MonotonicTime(nanoseconds: 0)

    func join(_ name: String) {
      var group = CollectorGroup("ward", member: name, below: "fleet")
      let actions = group.connected(now)
      groups[name] = group
      // A new subscriber gets the retained messages.
      for (topic, octets) in retained { hear(name, topic, octets) }
      publish(actions.messages)
    }

    func leave(_ name: String) {
      let will = groups.removeValue(forKey: name)?.will
      publish([will].compactMap(\.self))
    }

    func publish(_ messages: [CollectorGroup.Message]) {
      for message in messages {
        retained[message.topic] = message.octets.isEmpty ? nil : message.octets
        for name in groups.keys.sorted() { hear(name, message.topic, message.octets) }
      }
    }

    private func hear(_ name: String, _ topic: String, _ octets: [UInt8]) {
      if groups[name]?.take(topic, octets.span) == false,
        case .status(let publisher)? = FleetTopic(topic, below: "fleet")
      {
        groups[name]?.take(publisher, status: octets.span)
      }
    }

    func tell(_ publisher: String, _ state: PublisherStatus.State) {
      let status = PublisherStatus(state: state, session: "5f1e", device: nil)
      publish([.init(topic: "fleet/\(publisher)/status", octets: status.octets)])
    }

    /// Runs until no collector acts any more.
    func settle() {
      now = now.advanced(by: .seconds(30))
      var isBusy = true
      while isBusy {
        isBusy = false
        for name in groups.keys.sorted() {
          guard let actions = groups[name]?.decide(now), actions != .init() else { continue }
          isBusy = true
          publish(actions.messages)
        }
      }
    }

    func owners(of publisher: String) -> [String] {
      groups.keys.filter { groups[$0]?.owned.contains(publisher) == true }.sorted()
    }
  }

  @Test func eachPublisherHasOneCollector() {
    let ward = Ward()
    for name in Self.names { ward.join(name) }
    let publishers = (1...300).map { "ring-\($0)" }
    for publisher in publishers { ward.tell(publisher, .online) }
    ward.settle()
    #expect(publishers.allSatisfy { ward.owners(of: $0).count == 1 })
    // About a third each, by chance: five standard deviations of the binomial distribution are 41.
    let shares = Self.names.map { name in publishers.count { ward.owners(of: $0) == [name] } }
    #expect(shares.allSatisfy { abs($0 - 100) <= 41 }, "\(shares)")

    // When a collector leaves, the others take over its publishers; the rest stay in place.
    let before = Dictionary(uniqueKeysWithValues: publishers.map { ($0, ward.owners(of: $0)) })
    ward.leave("two")
    ward.settle()
    #expect(publishers.allSatisfy { ward.owners(of: $0).count == 1 })
    #expect(publishers.allSatisfy { before[$0] == ["two"] || before[$0] == ward.owners(of: $0) })

    // A collector that joins gets publishers that begin from then on.
    let kept = Dictionary(uniqueKeysWithValues: publishers.map { ($0, ward.owners(of: $0)) })
    ward.join("four")
    ward.settle()
    #expect(publishers.allSatisfy { kept[$0] == ward.owners(of: $0) })
    for publisher in publishers { ward.tell(publisher, .ended) }
    ward.settle()
    #expect(publishers.allSatisfy { ward.owners(of: $0).isEmpty })
    #expect(!ward.retained.keys.contains { $0.contains("/claims/") })
    for publisher in publishers { ward.tell(publisher, .online) }
    ward.settle()
    #expect(publishers.contains { ward.owners(of: $0) == ["four"] })
  }

  /// Two collectors that did not see each other have claimed the same publisher: the last claim wins.
  @Test func ofTwoClaimsTheLastStands() {
    let ward = Ward()
    ward.join("one")
    ward.tell("ring", .online)
    ward.settle()
    #expect(ward.owners(of: "ring") == ["one"])
    ward.join("two")
    ward.publish([.init(topic: "fleet/.group/ward/claims/ring", octets: Array("two".utf8))])
    ward.settle()
    #expect(ward.owners(of: "ring") == ["two"])
  }

  @Test func takesNothingOfStrangers() {
    var group = CollectorGroup("ward", member: "one", below: "fleet")
    _ = group.connected(MonotonicTime(nanoseconds: 0))
    let hostile: [(String, [UInt8])] = [
      ("fleet/.group/ward/claims/../x", Array("one".utf8)),
      ("fleet/.group/ward/claims/ring", [0xFF, 0x00, 0x2F]),
      ("fleet/.group/ward/members/", [1]), ("fleet/.group/ward/other/x", []),
      ("fleet/.group/ward/claims/ring", [UInt8](repeating: 0x61, count: 100_000)),
    ]
    for (topic, octets) in hostile {
      let isTaken = group.take(topic, octets.span)
      #expect(isTaken, "\(topic)")
    }
    group.take("ring", status: Array("{\"state\":\"online\"}\n".utf8).span)
    let actions = group.decide(MonotonicTime(nanoseconds: 60_000_000_000))
    #expect(actions == .init())
    let owned = group.owned
    #expect(owned.isEmpty)
    #expect(FleetTopic("fleet/.group/ward/claims/ring", below: "fleet") == nil)
  }
}

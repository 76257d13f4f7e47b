import BLEEmulation
import BLEHost
import BLELinux
import BLEReplay
import BLEStack
import BLEWire
import ColmiRing
import Foundation
import Synchronization
import TestKit
import Testing

@testable import Recording
import SensorSessions

/// Reconnecting sessions: number of ATT round trips before the first sample, by the controller's log, and
/// handling of attributes that changed. Core 5.4, Vol 3, Part G, 2.5.2.
@Suite(.timeLimit(.minutes(2))) struct CachedReconnectTests {
  private static let start = ReceiveTime(nanoseconds: 1_700_000_000_000_000_000)

  /// Requests of our host over one link: those before the first raw frame, and those after it.
  private struct Asked {
    var before: [[UInt8]] = []
    var after: [[UInt8]] = []
    var hasFrame = false

    var opcodes: [UInt8] { before.map { $0[0] } }
  }

  /// Requests by link, from a log of all packets between host and controller.
  private static func asked(_ path: String) throws -> [Asked] {
    var links: [Asked] = []
    var link = Asked()
    for packet in try ReplayLog.read(path).packets {
      let octets = packet.octets
      // H4 type; then an event's code, or two headers and the opcode for data.
      if octets[0] == 0x04, octets[1] == 0x05 {
        links.append(link)
        link = Asked()
      }
      guard octets[0] == 0x02, octets.count > 9, octets[7] == 4 else { continue }
      let isRequest = ATTOpcode(rawValue: octets[9]).kind == .request
      if packet.direction == .hostToController, isRequest {
        if link.hasFrame {
          link.after.append(Array(octets[9...]))
        } else {
          link.before.append(Array(octets[9...]))
        }
      } else if packet.direction == .controllerToHost, octets[9] == 0x1B, octets[12] == 0xA1 {
        link.hasFrame = true
      }
    }
    return links
  }

  /// Results of a session.
  private struct Run {
    var links: [DeviceSession.LinkSummary]
    var asked: [Asked]
    var samples: Int
    var failure: HostError?
    var times: [Int64]
  }

  /// A session in virtual time with a ring that disconnects after every 30 frames, until `count` frames have
  /// arrived.
  private func run(
    _ count: Int, leaves: Bool = true, remembering devices: KnownDevices? = nil,
    _ change: (inout RingAttributes) -> Void
  ) async throws -> Run {
    try await withFolder { folder in
      var ring = quietRing(rate: 15)
      if leaves { ring.disconnectAfter = 30 }
      change(&ring.attributes)
      let log = try await PacketLogFile.start(folder + "/hci.btsnoop")
      let link = try await VirtualLink.open([ring], pace: .air, clock: .virtual(from: Self.start)) {
        log.capturing($0)
      }
      let adapter = link.adapter
      if let devices { await adapter.add(DeviceJournal(devices) { Issue.record("\($0)") }) }
      var plan = DeviceSession.Plan(ring.address)
      plan.patience = .seconds(60)
      let session = DeviceSession(plan, on: adapter)
      let (ends, end) = AsyncStream.makeStream(of: Void.self)
      // Time stands still until the session has been told to end.
      let isComplete = Flag()
      link.loop.clock.hold { isComplete.isSet }
      let sink = SampleSink<RingRawReading>(
        SampleChannel(capacity: RingSession.queueCapacity), for: .recorder, limit: count
      ) { _ in
        isComplete.set(true)
        end.finish()
      }
      let running = Task(executorPreference: link.loop) { () -> HostError? in
        defer { end.finish() }
        do throws(HostError) {
          try await session.run(SensorProfile<RingSession>((), sink))
          return nil
        } catch { return error }
      }
      for await _ in ends {}
      running.cancel()
      isComplete.set(false)
      let failure = await running.value
      if devices != nil { await adapter.close() }
      await link.close()
      #expect(await log.finish().lost == 0)
      var times: [Int64] = []
      while let sample = sink.samples.ring.pop() { times.append(sample.time.nanoseconds) }
      return Run(
        links: await session.links, asked: try Self.asked(folder + "/hci.btsnoop"), samples: times.count,
        failure: failure, times: times)
    }
  }

  private static let hash: UInt8 = 0x08
  private static let write: UInt8 = 0x12
  /// Finding the service, its two declarations, the descriptor that enables replies, and the subscription.
  /// The start command that follows is not a request.
  private static let discovery: [UInt8] = [0x06, 0x08, 0x08, 0x04, write]

  /// With a larger MTU both declarations arrive in one response.
  private static let again: [UInt8] = [0x06, 0x08, 0x04, write]

  /// The hash, if there is one; if nothing proves that the attributes are unchanged, everything again.
  private static func reconnect(_ kind: RingAttributes.Kind) -> [UInt8] {
    switch kind {
    case .lasting: [write]
    case .hashed: [hash, write]
    case .captured: discovery
    }
  }

  /// Requests after the first sample of a link whose attributes were unknown. First the MTU and the Generic
  /// Attribute service, to be told of changes; then the ring's two services and the second channel. Each
  /// service takes a request for its range and one for its declarations, of which the last has only its value
  /// and a descriptor after it.
  private static func completion(_ kind: RingAttributes.Kind) -> [UInt8] {
    let service: [UInt8] = [0x06, 0x08, 0x08, 0x04]
    let generic: [UInt8] =
      switch kind {
      case .lasting: [0x06, 0x08]
      case .captured: [0x06, 0x08, 0x08, 0x04, write]
      case .hashed: [0x06, 0x08, 0x08, 0x04, write, write, hash]
      }
    return [0x02] + generic + service + service + [write]
  }

  /// The figures given in the README.
  @Test func numbers() {
    #expect(RingAttributes.Kind.allCases.map { Self.reconnect($0).count } == [5, 1, 2])
    #expect(Self.discovery.count == 5)
  }

  @Test(arguments: RingAttributes.Kind.allCases)
  func asksAsLittleAsItMay(_ kind: RingAttributes.Kind) async throws {
    let run = try await run(100) { $0.kind = kind }
    #expect(run.failure == nil && run.samples == 100)
    #expect(run.asked.count == 4 && run.links.count == 4)
    #expect(run.asked[0].opcodes == Self.discovery)
    for asked in run.asked[1...] { #expect(asked.opcodes == Self.reconnect(kind)) }
    #expect(run.links.map(\.requestsBeforeFirstSample) == run.asked.map(\.before.count))
    let usesEarlier = kind != .captured
    #expect(run.links.map(\.usedEarlierDiscovery) == [false, usesEarlier, usesEarlier, usesEarlier])
    for (summary, asked) in zip(run.links, run.asked) {
      #expect(summary.statistics.requests == asked.before.count + asked.after.count)
    }
    #expect(run.asked[0].after.map { $0[0] } == Self.completion(kind))
    // With attributes of an earlier link: the MTU, the subscription to changes, the second channel.
    let after = run.asked[1].after.map { $0[0] }
    switch kind {
    case .lasting: #expect(after == [0x02, Self.write])
    case .hashed: #expect(after == [0x02, Self.write, Self.write, Self.hash, Self.write])
    case .captured: #expect(after == Self.completion(kind))
    }
  }

  /// Two programs one after the other: the second uses what the first has discovered.
  @Test(arguments: RingAttributes.Kind.allCases)
  func remembersFromProgramToProgram(_ kind: RingAttributes.Kind) async throws {
    try await withFolder { folder in
      let devices = KnownDevices(in: folder + "/devices") { Issue.record("\($0)") }
      _ = try await run(20, leaves: false, remembering: devices) { $0.kind = kind }
      let later = try await run(20, leaves: false, remembering: devices) { $0.kind = kind }
      #expect(later.failure == nil && later.samples == 20)
      #expect(later.asked.map(\.opcodes) == [Self.reconnect(kind)])
    }
  }

  /// The ring with the same address has changed between two programs.
  @Test(arguments: RingAttributes.Kind.allCases, RingAttributes.Move.allCases)
  func findsWhatIsElsewhereNow(_ kind: RingAttributes.Kind, _ move: RingAttributes.Move) async throws {
    let run = try await run(100) {
      $0.kind = kind
      $0.move = move
      $0.moment = .betweenLinks
    }
    #expect(run.failure == nil && run.samples == 100 && run.links.count == 4)
    let second = run.asked[1].opcodes
    switch (kind, move) {
    case (.captured, _): #expect(second == Self.discovery)
    case (.hashed, _): #expect(second == [Self.hash] + Self.discovery)
    // Its attributes were not supposed to change. It refuses, because the subscription's handle is unused:
    // everything is discovered again.
    case (.lasting, .away): #expect(second == [Self.write] + Self.discovery)
    // It accepts the writes that are meant for other attributes, and sends nothing. After two seconds the
    // other channel is tried; after five the cached attributes are discarded.
    case (.lasting, .swapped):
      #expect(second.prefix(3) == [Self.write, Self.write, 0x02])
      #expect(second.suffix(Self.again.count) == Self.again[...])
      let pause = run.times[30] - run.times[29]
      #expect(pause > 5_000_000_000)
    }
    // The new attributes are used for the next link.
    #expect(run.asked[2].opcodes == Self.reconnect(kind))
  }

  /// Service Changed during a stream: the stream is restarted on the same link, at the new handles.
  @Test(arguments: [RingAttributes.Kind.captured, .hashed], RingAttributes.Move.allCases)
  func followsAChangeWhileConnected(
    _ kind: RingAttributes.Kind, _ move: RingAttributes.Move
  ) async throws {
    let run = try await run(60, leaves: false) {
      $0.kind = kind
      $0.move = move
      $0.moment = .afterNotifications(30)
    }
    #expect(run.failure == nil && run.samples == 60)
    #expect(run.links.count == 1)
    #expect(run.links[0].end == nil)
    // The MTU only once; at the end two writes stop the stream.
    let after = run.asked[0].after.map { $0[0] }
    #expect(
      after == Self.completion(kind) + Self.again + Self.completion(kind).dropFirst() + [
        Self.write, Self.write,
      ])
  }

  /// A ring that streams on its second channel: after two seconds that channel is subscribed to, and the
  /// start command is sent again.
  @Test(arguments: RingAttributes.Kind.allCases)
  func hearsTheSecondChannelToo(_ kind: RingAttributes.Kind) async throws {
    let run = try await run(60) {
      $0.kind = kind
      $0.streamChannel = .bigData
    }
    #expect(run.failure == nil && run.samples == 60 && run.links.count == 2)
    #expect(run.asked[0].opcodes == Self.discovery + Self.completion(kind))
    let further = kind == .captured ? Self.completion(kind) : [Self.write]
    #expect(run.asked[1].opcodes == Self.reconnect(kind) + further)
    #expect((2_000_000_000..<4_000_000_000).contains(run.times[30] - run.times[29]))
  }

  /// The same on a link that began with attributes cached by an earlier program.
  @Test func followsAChangeOfWhatWasKnown() async throws {
    try await withFolder { folder in
      let devices = KnownDevices(in: folder + "/devices") { Issue.record("\($0)") }
      _ = try await run(20, leaves: false, remembering: devices) { $0.kind = .hashed }
      let later = try await run(60, leaves: false, remembering: devices) {
        $0.kind = .hashed
        $0.moment = .afterNotifications(30)
      }
      #expect(later.failure == nil && later.samples == 60 && later.links.count == 1)
      #expect(later.asked[0].opcodes == Self.reconnect(.hashed))
      // The cache has the new handles.
      let known = try #require(devices.all().first)
      let service = known.discovery.database.services.first { $0.uuid == RingUUID.commandService }
      #expect(service?.range.start == AttributeHandle(0x2E))
    }
  }

  /// A strap without Service Changed: a second link starts with the subscription, and the other requests
  /// follow it.
  @Test func aStrapIsSubscribedToFirst() async throws {
    try await withFolder { folder in
      var sensor = EmulatedSensor.Configuration()
      sensor.disconnectAfter = 10
      sensor.advertisingInterval = .milliseconds(20)
      let configuration = sensor
      let log = try await PacketLogFile.start(folder + "/hci.btsnoop")
      let link = try await VirtualLink.open(
        pace: .air, clock: .virtual(from: Self.start), wrap: { log.capturing($0) },
        peripherals: { [EmulatedSensor(StrapModel(), configuration)] })
      var plan = DeviceSession.Plan(StrapModel().address)
      plan.patience = .seconds(60)
      let session = DeviceSession(plan, on: link.adapter)
      let profile = SensorProfile<HeartRateSession>(.none)
      let isComplete = Flag()
      link.loop.clock.hold { isComplete.isSet }
      let running = Task(executorPreference: link.loop) {
        defer { profile.finish() }
        try await session.run(profile)
      }
      var rates = 0
      for await _ in profile.samples {
        rates += 1
        if rates == 25 { break }
      }
      isComplete.set(true)
      running.cancel()
      isComplete.set(false)
      _ = await running.result
      await link.close()
      _ = await log.finish()
      let asked = try Self.asked(folder + "/hci.btsnoop")
      // GAP has five attributes, GATT one; then follow the service, the measurement's declaration and value,
      // and its CCCD.
      let subscription: [UInt8] = [Self.write, 0x0A, 0x00, 0x01, 0x00]
      #expect(asked[0].before.prefix(4).map { $0[0] } == [0x06, 0x08, 0x04, Self.write])
      #expect(asked[0].before[3] == subscription)
      #expect(asked[1].before.first == subscription)
      #expect(asked[2].before.first == subscription)
      #expect(await session.links.prefix(3).map(\.usedEarlierDiscovery) == [false, true, true])
    }
  }

  /// A file whose content was changed is set aside, and the device is discovered again.
  @Test func aChangedFileIsNotBelieved() async throws {
    try await withFolder { folder in
      let warnings = Mutex<[String]>([])
      let devices = KnownDevices(in: folder + "/devices") { text in warnings.withLock { $0.append(text) } }
      _ = try await run(20, leaves: false, remembering: devices) { $0.kind = .lasting }
      let name = try #require(Files.names(in: devices.folder).first { $0.hasSuffix(".json") })
      let path = devices.folder + "/" + name
      let text = try String(contentsOfFile: path, encoding: .utf8)
      // The handle that commands are written to: another handle that is equally valid.
      let changed = text.replacing(#""valueHandle":16"#, with: #""valueHandle":18"#)
      #expect(changed != text)
      try Data(changed.utf8).write(to: URL(filePath: path))
      let later = try await run(20, leaves: false, remembering: devices) { $0.kind = .lasting }
      #expect(later.samples == 20)
      #expect(later.asked.map(\.opcodes) == [Self.discovery])
      #expect(warnings.withLock { $0 }.count == 1)
      #expect(Files.exists(path + ".damaged"))
    }
  }
}

private final class Flag: Sendable {
  private let value = Atomic<Bool>(false)
  var isSet: Bool { value.load(ordering: .relaxed) }
  func set(_ isSet: Bool) { value.store(isSet, ordering: .relaxed) }
}

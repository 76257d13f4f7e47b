import BLEHost
import BLELinux
import BLEStack
import BLEWire
import Synchronization
import TestPeer
import Testing

/// Attributes of an earlier link, with google/bumble's server, which changes them: an independent Database
/// Hash, Service Changed and handles.
@Suite(
  .serialized,
  .timeLimit(.minutes(1)))
struct ChangingServerTests {
  private static let service = BluetoothUUID(0xFFF0)
  private static let value = BluetoothUUID(0xFFF1)
  private static let control = BluetoothUUID(0xFFF2)

  /// The server's means to report changes.
  enum Kind: String, CaseIterable, Sendable {
    case hashed = ""
    case plain = "--plain"
    case silent = "--silent"
  }

  /// Consecutive links to the same server.
  private struct Scene {
    let adapter: HostAdapter
    let address: DeviceAddress
    var known: GATTDiscoveryResult?

    /// Opens a link with the attributes that the previous one found.
    mutating func link(
      _ body: (Connection, GATTDatabase) async throws -> Void
    ) async throws {
      let connection = try await adapter.connect(
        to: address, asking: LinkRequest(), timeout: .seconds(10), tap: nil)
      if let known { await connection.restore(known) }
      let database = try await connection.attributes(of: [ChangingServerTests.service])
      try await body(connection, database)
      #expect(await connection.end == nil)
      known = await connection.discovery
      await connection.close()
    }
  }

  private func withServer(_ kind: Kind, _ body: (inout Scene) async throws -> Void) async throws {
    let peer = try await BumblePeer.start(
      "bumble_changing_server.py", kind == .hashed ? [] : [kind.rawValue])
    let loop = try EventLoop.start()
    defer { loop.stop() }
    let adapter = try await HostAdapter.open(.tcpClient(host: "127.0.0.1", port: peer.port), on: loop)
    var scene = Scene(adapter: adapter, address: peer.address)
    try await body(&scene)
    #expect(await adapter.malformed == 0)
    await adapter.close()
  }

  private static func handles(_ database: GATTDatabase) throws -> (
    value: AttributeHandle, control: AttributeHandle
  ) {
    let value = try #require(database.characteristic(value, in: service))
    let control = try #require(database.characteristic(control, in: service))
    return (value.valueHandle, control.valueHandle)
  }

  private static func expect(_ text: String, _ connection: Connection, _ handle: AttributeHandle) async throws
  {
    let value = try await connection.read(handle)
    #expect(String(decoding: value, as: UTF8.self) == text)
  }

  /// Number of requests until the first value: with discovery, and from the second link on.
  @Test(arguments: Kind.allCases) func reconnects(_ kind: Kind) async throws {
    try await withServer(kind) { scene in
      var requests: [Int] = []
      for _ in 0..<3 {
        try await scene.link { connection, database in
          try await Self.expect("first", connection, Self.handles(database).value)
          requests.append(connection.requests.value)
          try await connection.validate()
        }
      }
      switch kind {
      case .hashed: #expect(requests[1] == 2 && requests[2] == 2)
      case .silent: #expect(requests[1] == 1 && requests[2] == 1)
      // Two declarations and a CCCD, and the value.
      case .plain: #expect(requests[1] == 4 && requests[2] == 4)
      }
      #expect(requests[0] >= 7)
    }
  }

  /// The server changes after the link has ended.
  @Test(arguments: [Kind.hashed, .plain]) func findsWhatHasMoved(_ kind: Kind) async throws {
    try await withServer(kind) { scene in
      var first = AttributeHandle.none
      try await scene.link { connection, database in
        let handles = try Self.handles(database)
        first = handles.value
        try await connection.write(Array("l".utf8), to: handles.control)
      }
      try await scene.link { connection, database in
        let handles = try Self.handles(database)
        #expect(await !connection.usesEarlierDiscovery)
        // The old handle now belongs to another service, and could be read as well.
        #expect(handles.value > first)
        try await Self.expect("other", connection, first)
        try await Self.expect("second", connection, handles.value)
      }
      try await scene.link { connection, database in
        #expect(await connection.usesEarlierDiscovery)
        try await Self.expect("second", connection, Self.handles(database).value)
      }
    }
  }

  /// Service Changed on a link with discovery, and on one with attributes of an earlier link.
  @Test(arguments: [(Kind.hashed, 1), (.hashed, 2), (.plain, 1)])
  func hearsOfAChange(_ kind: Kind, _ links: Int) async throws {
    try await withServer(kind) { scene in
      for _ in 1..<links { try await scene.link { _, _ in } }
      try await scene.link { connection, database in
        #expect(await connection.usesEarlierDiscovery == (links > 1))
        try await connection.validate()
        let former = try Self.handles(database)
        try await connection.write(Array("n".utf8), to: former.control)
        await connection.attributesChanged(since: 0)
        #expect(await connection.attributeChangeCount == 1)
        #expect(await connection.discovery == nil)
        let again = try await connection.attributes(of: [Self.service])
        let handles = try Self.handles(again)
        #expect(handles.value != former.value)
        try await Self.expect("second", connection, handles.value)
        // Values come from the new handle.
        let values = SharedTexts()
        let characteristic = try #require(again.characteristic(Self.value, in: Self.service))
        _ = try await connection.subscribe(characteristic) { notification, _ in
          values.add(notification.value.indices.map { notification.value[$0] })
        }
        try await connection.write(Array("t".utf8), to: handles.control)
        await values.count.reaches(1)
        #expect(values.all == ["second"])
      }
    }
  }
}

private final class SharedTexts: Sendable {
  private let texts = Mutex<[String]>([])
  var all: [String] { texts.withLock { $0 } }
  let count = Counter()

  func add(_ octets: [UInt8]) {
    texts.withLock { $0.append(String(decoding: octets, as: UTF8.self)) }
    count.add()
  }
}

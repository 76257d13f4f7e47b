import BLELinux
import BLEWire
import Foundation
import TestKit
import TestPeer
import Testing

@testable import Outlets

/// A client that sends any bytes and reads what it gets.
private final class RawClient {
  struct Frame: Equatable {
    var opcode: UInt8
    var payload: [UInt8]

    var text: String { String(decoding: payload, as: UTF8.self) }
    var code: Int? { payload.count < 2 ? nil : Int(payload[0]) << 8 | Int(payload[1]) }
  }

  struct End: Error {}
  struct Silence: Error {}

  private let descriptor: FileDescriptor
  private var received: [UInt8] = []
  private let port: Int

  init(_ port: Int) throws {
    self.port = port
    descriptor = try ControllerPort.tcp(host: "127.0.0.1", port: UInt16(port))
  }

  func send(_ octets: [UInt8]) throws {
    var offset = 0
    while offset < octets.count {
      do { offset += try descriptor.send(octets.span.extracting(offset...)) } catch {
        guard error.condition == .wouldBlock else { throw error }
        descriptor.waitUntilWritable()
      }
    }
  }

  func send(_ lines: String) throws { try send(Array(lines.replacing("\n", with: "\r\n").utf8)) }

  /// - Throws: `End` at the end, `Silence` if nothing arrives.
  private func receive() throws {
    var buffer = [UInt8](repeating: 0, count: 1 << 16)
    guard descriptor.waitUntilReadable(milliseconds: 30_000) else { throw Silence() }
    guard let count = try? descriptor.read(into: &buffer),
      count > 0
    else { throw End() }
    received += buffer[..<count]
  }

  /// The head of a response.
  func head() throws -> String {
    while true {
      let text = String(decoding: received, as: UTF8.self)
      if let end = text.firstRange(of: "\r\n\r\n") {
        received.removeFirst(text[..<end.upperBound].utf8.count)
        return String(text[..<end.lowerBound])
      }
      try receive()
    }
  }

  func status() throws -> Int? { try head().split(separator: " ").dropFirst().first.flatMap { Int($0) } }

  static let handshake =
    "Upgrade: websocket\nConnection: Upgrade\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\nSec-WebSocket-Version: 13\n\n"

  func upgrade() throws {
    try send("GET / HTTP/1.1\nHost: 127.0.0.1:\(port)\n" + Self.handshake)
    #expect(
      try head()
        == "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        + "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")
  }

  /// Sends a masked frame.
  func send(_ first: UInt8, _ payload: [UInt8]) throws {
    try send(
      [first, 0x80 | UInt8(payload.count), 1, 2, 3, 4] + payload.enumerated().map { $1 ^ UInt8($0 % 4 + 1) })
  }

  /// The next frame: unmasked, complete.
  func frame() throws -> Frame {
    while true {
      if received.count >= 2 {
        try #require(received[0] & 0xF0 == 0x80 && received[1] < 0x80)
        let (start, count) =
          switch received[1] {
          case 126: (4, received.dropFirst(2).prefix(2).reduce(0) { $0 << 8 | Int($1) })
          case 127: (10, received.dropFirst(2).prefix(8).reduce(0) { $0 << 8 | Int($1) })
          case let count: (2, Int(count))
          }
        if received.count >= start + count {
          defer { received.removeFirst(start + count) }
          return Frame(opcode: received[0] & 0x0F, payload: Array(received[start..<start + count]))
        }
      }
      try receive()
    }
  }

  /// Whether the server has closed.
  func isAtEnd() throws -> Bool {
    do { while true { try receive() } } catch is End { return true }
  }

  func rest() -> [UInt8] {
    while (try? receive()) != nil {}
    return received
  }
}

/// A stream that is served as a WebSocket.
private final class Served {
  let stream: SampleStream
  let port: Int
  let refusals = Counter()

  init() throws {
    let refusals = refusals
    port = try freePort()
    stream = try SampleStream([StreamTarget("ws://:\(port)")]) { news in
      if case .refused = news { refusals.add() }
    }
  }

  deinit { stream.close() }

  func reader() async throws -> RawClient {
    let before = stream.readers
    let client = try RawClient(port)
    try client.upgrade()
    try await eventually("the reader") { stream.readers == before + 1 }
    return client
  }

  func send(_ lines: [String]) {
    var batch = LineBatch()
    for line in lines { batch.append(Array((line + "\n").utf8)) }
    stream.send(batch)
  }
}

@Suite(.timeLimit(.minutes(2))) struct WebPortTests {
  @Test func eachLineIsAMessage() async throws {
    let served = try Served()
    let key = SampleStream.TableKey(device: .any, number: 0)
    served.stream.describe(key, Array("table\n".utf8))
    let client = try await served.reader()
    let lines = ["", "a", String(repeating: "b", count: 200), String(repeating: "c", count: 70_000), "ä"]
    served.send(lines)
    for line in ["table"] + lines {
      let frame = try client.frame()
      #expect(frame.opcode == 1 && frame.text == line)
    }
    // The end: a close frame, which the client confirms.
    served.stream.close()
    let close = try client.frame()
    #expect(close.opcode == 8 && close.code == 1000)
    try client.send(0x88, close.payload)
    await served.stream.finish()
    #expect(try client.isAtEnd())
  }

  /// A pong comes between messages. Many pings need not all be answered (RFC 6455, 5.5.3), but the last one is.
  @Test func answersPings() async throws {
    let served = try Served()
    let client = try await served.reader()
    try client.send(0x89, Array("Hello".utf8))
    #expect(try client.frame() == RawClient.Frame(opcode: 10, payload: Array("Hello".utf8)))
    for number in 0..<200 as Range<UInt8> {
      served.send(["line \(number)"])
      try client.send(0x89, [number])
    }
    try client.send(0x8A, [])
    var (pong, lines): (UInt8?, Int) = (nil, 0)
    while pong != 199 || lines < 200 {
      let frame = try client.frame()
      if frame.opcode == 10 { pong = frame.payload.first } else { lines += 1 }
    }
    #expect(served.stream.readers == 1)
  }

  @Test(
    arguments: [
      ([0x81, 0x82, 0, 0, 0, 0, 0x48, 0x69], 1008), ([0x82, 0xFF], 1008), ([0x81, 0x02, 0x48, 0x69], 1002),
      ([0xC1, 0x80], 1002), ([0x83, 0x80], 1002), ([0x89, 0xFE], 1002), ([0x88, 0x81, 0, 0, 0, 0, 3], 1002),
      ([0x88, 0x83, 0, 0, 0, 0, 3, 0xE8, 0xFF], 1007),
    ] as [([UInt8], Int)]) func closesOnViolations(_ octets: [UInt8], _ code: Int) async throws
  {
    let served = try Served()
    let client = try await served.reader()
    let other = try await served.reader()
    try client.send(octets)
    let frame = try client.frame()
    #expect(frame.opcode == 8 && frame.code == code)
    #expect(try client.isAtEnd())
    try await eventually("the reader is removed") { served.stream.readers == 1 }
    served.send(["line"])
    #expect(try other.frame().text == "line")
  }

  /// The client's close is confirmed with its code, and its place is free again at once.
  @Test func confirmsAClose() async throws {
    let served = try Served()
    for code in [1000, 1001, 4321] {
      let client = try await served.reader()
      try client.send(0x88, [UInt8(code >> 8), UInt8(code & 0xFF)])
      #expect(try client.frame().code == code)
      #expect(try client.isAtEnd())
      try await eventually("the reader is removed") { served.stream.readers == 0 }
    }
    // Without a close frame.
    _ = try await served.reader()
    try await eventually("the reader is removed") { served.stream.readers == 0 }
  }

  /// A reader that does not read misses lines and is told how many. Its pings do not hold anything up.
  @Test func tellsASlowReader() async throws {
    let served = try Served()
    let (slow, other) = (try await served.reader(), try await served.reader())
    var total = 0
    // More than a queue and the socket's buffers hold.
    let line = String(repeating: "x", count: 1000)
    for number in 0..<200 {
      served.send([String](repeating: line, count: 100))
      total += 100
      if number % 50 == 0 { try slow.send(0x89, [1]) }
      for _ in 0..<100 { try #require(try other.frame().text == line) }
    }
    served.stream.close()
    var (lines, missed) = (0, 0)
    while true {
      let frame = try slow.frame()
      if frame.opcode == 8 { break }
      if frame.opcode != 1 { continue }
      if frame.text == line {
        lines += 1
      } else {
        let told = try #require(frame.text.wholeMatch(of: /\{"stream":"missed","lines":([0-9]+)\}/))
        missed += try #require(Int(told.output.1))
      }
    }
    try slow.send(0x88, [])
    try other.send(0x88, [])
    await served.stream.finish()
    #expect(missed > 0 && lines > 1000)
    #expect(lines + missed == total)
  }

  @Test func limitsReaders() async throws {
    let served = try Served()
    var clients: [RawClient] = []
    for _ in 0..<SampleStream.readerLimit.count { clients.append(try await served.reader()) }
    let client = try RawClient(served.port)
    try client.send("GET / HTTP/1.1\nHost: localhost\n" + RawClient.handshake)
    #expect(try client.status() == 503)
    #expect(served.refusals.value == 1)
    served.send(["line"])
    for client in clients { #expect(try client.frame().text == "line") }
  }

  // MARK: Requests

  @Test func servesThePage() throws {
    let served = try Served()
    let client = try RawClient(served.port)
    try client.send("GET / HTTP/1.1\nHost: 127.0.0.1:\(served.port)\n\n")
    let head = try client.head()
    #expect(head.hasPrefix("HTTP/1.1 200 OK\r\n"))
    #expect(head.contains("Content-Security-Policy: default-src 'none'; "))
    #expect(head.contains("connect-src ws://127.0.0.1:\(served.port); "))
    let body = client.rest()
    #expect(head.contains("Content-Length: \(body.count)\r\n"))
    #expect(String(decoding: body, as: UTF8.self).hasPrefix("<!DOCTYPE html>"))
  }

  @Test(arguments: [
    ("GET / HTTP/1.1\nHost: evil.example\n\n", 421), ("POST / HTTP/1.1\nHost: localhost\n\n", 405),
    ("GET / HTTP/1.1\nHost: localhost\nOrigin: http://evil.example\n" + RawClient.handshake, 403),
    ("\n\n", 400), (String(repeating: "a", count: 100_000), 431),
    ("GET / HTTP/1.1\nHost: localhost\na: " + String(repeating: "a", count: 8192), 431),
  ]) func refuses(_ text: String, _ status: Int) throws {
    let served = try Served()
    let client = try RawClient(served.port)
    try client.send(text)
    #expect(try client.status() == status)
    #expect(try client.isAtEnd() && served.stream.readers == 0)
  }

  /// Bytes one at a time, and frames in the same packet as the request.
  @Test func acceptsAnyCuts() async throws {
    let served = try Served()
    let client = try RawClient(served.port)
    for octet in ("GET / HTTP/1.1\r\nHost: localhost\r\n" + RawClient.handshake.replacing("\n", with: "\r\n"))
      .utf8
    {
      try client.send([octet])
    }
    #expect(try client.status() == 101)
    let other = try RawClient(served.port)
    let head = "GET / HTTP/1.1\nHost: localhost\n" + RawClient.handshake
    try other.send(Array(head.replacing("\n", with: "\r\n").utf8) + [0x89, 0x81, 0, 0, 0, 0, 7])
    #expect(try other.status() == 101)
    #expect(try other.frame() == RawClient.Frame(opcode: 10, payload: [7]))
  }

  /// A client that sends nothing, or part of a request, is disconnected.
  @Test func limitsTheTimeOfARequest() throws {
    let port = try freePort()
    let place = WebPlace(host: "127.0.0.1", port: UInt16(port))
    let web = try WebPort(place, requestTime: .milliseconds(50))
    defer { web.close() }
    try SystemThread.start(named: "test") { web.serve { _ in nil } }
    #expect(try RawClient(port).isAtEnd())
    let client = try RawClient(port)
    try client.send("GET / HTTP/1.1\n")
    #expect(try client.status() == 408)
    #expect(try client.isAtEnd())
  }

  /// The one that has waited longest is disconnected, long before its time is over.
  @Test func limitsSilentClients() throws {
    let port = try freePort()
    let web = try WebPort(WebPlace(host: "127.0.0.1", port: UInt16(port)), requestTime: .seconds(600))
    defer { web.close() }
    try SystemThread.start(named: "test") { web.serve { _ in nil } }
    let first = try RawClient(port)
    var others: [RawClient] = []
    for _ in 0..<16 { others.append(try RawClient(port)) }
    #expect(try first.isAtEnd())
    try others[15].send("GET / HTTP/1.1\nHost: localhost\n\n")
    #expect(try others[15].status() == 200)
  }

  /// Requests and frames with random damage: the server answers others as before.
  @Test func survivesDamage() async throws {
    let served = try Served()
    let reader = try await served.reader()
    var random = SeededGenerator(state: 42)
    let head = "GET / HTTP/1.1\nHost: localhost\nOrigin: http://localhost\n" + RawClient.handshake
    let whole =
      Array(head.replacing("\n", with: "\r\n").utf8) + [
        0x89, 0x81, 1, 2, 3, 4, 7, 0x88, 0x82, 0, 0, 0, 0, 3, 0xE8,
      ]
    for _ in 0..<300 {
      var octets = whole
      for _ in 0...Int.random(in: 0..<4, using: &random) {
        let place = Int.random(in: 0..<octets.count, using: &random)
        switch Int.random(in: 0..<4, using: &random) {
        case 0: octets[place] = .random(in: 0...255, using: &random)
        case 1: octets.remove(at: place)
        case 2: octets.insert(.random(in: 0...255, using: &random), at: place)
        default: octets.removeLast(Int.random(in: 0..<20, using: &random))
        }
      }
      let client = try RawClient(served.port)
      try? client.send(octets)
    }
    try await eventually("only one reader") { served.stream.readers == 1 }
    served.send(["line"])
    #expect(try reader.frame().text == "line")
  }
}

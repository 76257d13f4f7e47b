import BLELinux
import Foundation
import TestKit
import Testing

@testable import Outlets

/// The handshake: what a request gets.
@Suite struct WebRequestTests {
  /// RFC 3174, 7.3; the last one is FIPS 180-4's example of two blocks.
  @Test(arguments: [
    ("abc", "a9993e364706816aba3e25717850c26c9cd0d89d"),
    ("", "da39a3ee5e6b4b0d3255bfef95601890afd80709"),
    (
      "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
      "84983e441c3bd26ebaae4aa1f95129e5e54670f1"
    ),
    (String(repeating: "a", count: 1_000_000), "34aa973cd4c4daa4f61eeb2bdbad27316534016f"),
    (
      String(repeating: "0123456701234567012345670123456701234567012345670123456701234567", count: 10),
      "dea356a2cddd90c7a7ecedc5ebb563934f460452"
    ),
  ]) func digest(_ text: String, _ digest: String) {
    #expect(hexOf(SHA1.digest(of: Array(text.utf8))) == digest)
  }

  /// RFC 6455, 1.3.
  @Test func acceptsTheExampleOfTheSpecification() throws {
    let text = """
      GET / HTTP/1.1
      Host: localhost:8080
      Upgrade: websocket
      Connection: Upgrade
      Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==
      Origin: http://localhost:8080
      Sec-WebSocket-Protocol: chat, superchat
      Sec-WebSocket-Version: 13
      """
    #expect(try answer(text) == .webSocket(accept: "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="))
  }

  private static let start = "GET / HTTP/1.1\nHost: 127.0.0.1:8080\n"
  private static let socket =
    start + "Upgrade: websocket\nConnection: Upgrade\nSec-WebSocket-Key: AAECAwQFBgcICQoLDA0ODw==\n"
  private static let whole = socket + "Sec-WebSocket-Version: 13\n"

  @Test(arguments: [
    whole, whole + "Origin: http://127.0.0.1:8080", socket + "sec-websocket-VERSION:13",
    whole.replacing("Connection: Upgrade", with: "Connection: keep-alive, Upgrade"),
    whole.replacing("Upgrade: websocket", with: "Upgrade: WebSocket"),
    whole + "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits",
    // A tunnel: other port, same origin.
    whole.replacing(":8080", with: ":9000") + "Origin: http://127.0.0.1:9000",
    whole.replacing("127.0.0.1:8080", with: "[::1]:8080") + "Origin: http://[::1]:8080",
    whole.replacing("127.0.0.1:8080", with: "localhost") + "Origin: http://LOCALHOST",
    whole + "Content-Length: 0",
  ]) func opens(_ text: String) throws {
    guard case .webSocket = try answer(text) else { throw Failure() }
  }

  @Test(arguments: [
    // Pages of others: another host, port or scheme, a sandbox, a repeated field.
    (whole + "Origin: http://evil.example", 403), (whole + "Origin: http://127.0.0.1:8081", 403),
    (whole + "Origin: https://127.0.0.1:8080", 403), (whole + "Origin: null", 403), (whole + "Origin:", 403),
    (whole + "Origin: http://127.0.0.1:8080\nOrigin: http://127.0.0.1:8080", 403),
    (whole + "Origin: http://127.0.0.1:8080.evil.example", 403),
    // A name that someone else may let resolve to this machine.
    (whole.replacing("127.0.0.1:8080", with: "evil.example:8080") + "Origin: http://evil.example:8080", 421),
    ("GET / HTTP/1.1\nHost: evil.example\n", 421), ("GET / HTTP/1.1\nHost: 127.0.0.1.evil.example\n", 421),
    ("GET / HTTP/1.1\nHost: localhost.evil.example\n", 421), ("GET / HTTP/1.1\nHost: 1.2.3\n", 421),
    ("GET / HTTP/1.1\nHost: 1.2.3.256\n", 421), ("GET / HTTP/1.1\nHost: machine.local\n", 421),
    ("GET / HTTP/1.1\nHost: 127.0.0.1:x\n", 421), ("GET / HTTP/1.1\nHost: 127.0.0.1:+80\n", 421),
    ("GET / HTTP/1.1\nHost: [::1\n", 421), ("GET / HTTP/1.1\nHost: [evil]\n", 421),
    ("GET / HTTP/1.1\nHost: a'b\n", 421), ("GET / HTTP/1.1\nHost:\n", 421),
    ("GET / HTTP/1.1\n", 400), (start + "Host: 127.0.0.1:8080\n", 400),
    // Incomplete or wrong handshakes.
    (socket, 426), (socket + "Sec-WebSocket-Version: 8", 426),
    (whole.replacing("Connection: Upgrade\n", with: ""), 400),
    (whole.replacing("websocket\n", with: "h2c\n"), 400),
    (whole.replacing("AAECAwQFBgcICQoLDA0ODw==", with: "AAEC"), 400),
    (whole.replacing("AAECAwQFBgcICQoLDA0ODw==", with: "AAECAwQFBgcICQoLDA0ODw=?"), 400),
    (whole.replacing("AAECAwQFBgcICQoLDA0ODw==", with: "AAECAwQFBgcICQo DA0ODw=="), 400),
    (whole + "Sec-WebSocket-Key: AAECAwQFBgcICQoLDA0ODw==", 400),
    (whole.replacing("GET", with: "POST"), 405), (whole.replacing("GET /", with: "GET /x"), 404),
    (whole.replacing("GET", with: "HEAD"), 400),
    // Malformed heads.
    (start + "a b: c", 400), (start + "a : c", 400), (start + ": c", 400), (start + "a", 400),
    (start + " folded: c", 400), (start + "a: \u{1}", 400), (start + "a: \u{7F}", 400),
    ("GET /\nHost: 127.0.0.1\n", 400), ("GET  / HTTP/1.1\nHost: 127.0.0.1\n", 400),
    ("GET / HTTP/1.1 \nHost: 127.0.0.1\n", 400), ("GET / HTTP/1.0\nHost: 127.0.0.1\n", 505),
    ("GET / HTTP/2\nHost: 127.0.0.1\n", 505), ("G(T / HTTP/1.1\nHost: 127.0.0.1\n", 400),
    (" / HTTP/1.1\nHost: 127.0.0.1\n", 400), ("\nGET / HTTP/1.1\nHost: 127.0.0.1\n", 400),
    (start + "Content-Length: 5", 400), (start + "Transfer-Encoding: chunked", 400),
    (start + "Content-Length: 5\r\nContent-Length: 5", 400),
    (start + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", 400),
    (start + String(repeating: "a: b\n", count: 64), 431),
  ]) func refuses(_ text: String, _ status: Int) {
    #expect { try answer(text) } throws: { ($0 as? WebRefusal)?.status == status }
  }

  /// Each cut of a head, and a head with line feeds alone.
  @Test func refusesPartsOfAHead() {
    let head = Array(Self.whole.replacing("\n", with: "\r\n").utf8) + "\r\n".utf8
    for count in 0..<head.count {
      #expect(throws: WebRefusal.malformed) { try WebRequest(head: Array(head.prefix(count))) }
    }
    #expect(throws: WebRefusal.malformed) { try WebRequest(head: Array((Self.whole + "\n").utf8)) }
  }

  @Test func servesThePage() throws {
    #expect(try answer(Self.start) == .page(authority: "127.0.0.1:8080", isComplete: true))
    #expect(
      try answer(Self.start.replacing("GET", with: "HEAD"))
        == .page(authority: "127.0.0.1:8080", isComplete: false))
  }

  /// Names of the machine are accepted if others can connect, and the host of `--to`.
  @Test func acceptsItsOwnNames() throws {
    let anywhere = try place("ws://0.0.0.0:8080")
    for name in ["machine", "machine.local", "MACHINE:8080", "192.168.1.7:8080"] {
      _ = try answer("GET / HTTP/1.1\nHost: \(name)\n", at: anywhere)
    }
    #expect(throws: WebRefusal.noHost) { try answer("GET / HTTP/1.1\nHost: machine.lan\n", at: anywhere) }
    _ = try answer("GET / HTTP/1.1\nHost: machine.lan\n", at: try place("ws://machine.lan:8080"))
  }

  @Test func acceptsAnotherOrigin() throws {
    let place = try #require(try place("ws://:8080").allowing(origin: "http://localhost:3000"))
    for origin in ["http://localhost:3000", "http://127.0.0.1:8080"] {
      guard case .webSocket = try answer(Self.whole + "Origin: \(origin)", at: place) else { throw Failure() }
    }
    #expect(throws: WebRefusal.noOrigin) {
      try answer(Self.whole + "Origin: http://localhost:3001", at: place)
    }
    for text in ["null", "localhost", "http://", "http://a/b", "ftp://a", "http://a'b", "http:/a", "*"] {
      #expect(place.allowing(origin: text) == nil, "\(text)")
    }
  }

  @Test(arguments: [
    ("ws://:8080", "127.0.0.1", 8080), ("ws://:8080/", "127.0.0.1", 8080), ("ws://0.0.0.0:1", "0.0.0.0", 1),
    ("ws://[::1]:65535", "::1", 65535), ("ws://localhost:80", "localhost", 80),
  ]) func parses(_ text: String, _ host: String, _ port: Int) throws {
    let place = try place(text)
    #expect(place.host == host && place.port == port)
  }

  @Test(arguments: [
    "ws:", "ws://", "ws:8080", "ws://8080", "ws://:0", "ws://:70000", "ws://h", "ws://::1:80", "ws://:80/x",
    "ws://a/b:80", "wss://:80",
  ]) func refusesPlaces(_ text: String) {
    #expect(throws: StreamTarget.ParseError.self) { try StreamTarget(text) }
  }

  @Test(arguments: [
    ("ws://:1", true), ("ws://127.0.0.2:1", true), ("ws://localhost:1", true), ("ws://[::1]:1", true),
    ("ws://0.0.0.0:1", false), ("ws://192.168.1.7:1", false), ("ws://[::]:1", false),
    ("ws://127.example.org:1", false),
  ]) func knowsLoopback(_ text: String, _ isLoopback: Bool) throws {
    #expect(try place(text).isLoopback == isLoopback)
  }

  private struct Failure: Error {}

  private func place(_ text: String) throws -> WebPlace {
    guard case .web(let place) = try StreamTarget(text) else { throw Failure() }
    return place
  }

  private func answer(_ lines: String, at place: WebPlace? = nil) throws -> WebPlace.Answer {
    let text = (lines.hasSuffix("\n") ? lines : lines + "\n").replacing("\n", with: "\r\n") + "\r\n"
    return try (place ?? self.place("ws://:8080")).answer(
      to: WebRequest(head: Array(text.utf8)), on: "machine")
  }
}

/// Frames: those of RFC 6455, 5.7, and each rule broken.
@Suite struct WebSocketFrameTests {
  private static let mask: [UInt8] = [0x37, 0xFA, 0x21, 0x3D]

  /// A masked frame.
  private static func frame(_ first: UInt8, _ payload: [UInt8]) -> [UInt8] {
    precondition(payload.count < 126)
    return [first, 0x80 | UInt8(payload.count)] + mask + payload.enumerated().map { $1 ^ mask[$0 % 4] }
  }

  private static func close(_ code: Int, _ reason: [UInt8] = []) -> [UInt8] {
    frame(0x88, [UInt8(code >> 8), UInt8(code & 0xFF)] + reason)
  }

  private func events(_ octets: [UInt8], by count: Int = .max) -> [WebSocketReader.Event] {
    var (reader, events, rest) = (WebSocketReader(), [] as [WebSocketReader.Event], octets[...])
    while !rest.isEmpty {
      events += reader.take(Array(rest.prefix(count)).span)
      rest = rest.dropFirst(count)
    }
    return events
  }

  @Test func readsControlFrames() {
    // RFC 6455, 5.7: a masked ping, and a pong, with the body "Hello".
    let hello = Array("Hello".utf8)
    let ping: [UInt8] = [0x89, 0x85] + Self.mask + [0x7F, 0x9F, 0x4D, 0x51, 0x58]
    let pong: [UInt8] = [0x8A, 0x85] + Self.mask + [0x7F, 0x9F, 0x4D, 0x51, 0x58]
    let octets = ping + pong + Self.frame(0x89, []) + Self.close(1001, Array("bye".utf8)) + ping
    for count in 1...octets.count {
      #expect(events(octets, by: count) == [.ping(hello), .pong, .ping([]), .close(1001)])
    }
    let longest = [UInt8](repeating: 7, count: 125)
    #expect(events(Self.frame(0x89, longest)) == [.ping(longest)])
    #expect(events(Self.frame(0x88, [])) == [.close(nil)])
  }

  @Test(arguments: [1000, 1001, 1002, 1003, 1007, 1011, 1014, 3000, 4999])
  func readsCloseCodes(_ code: Int) { #expect(events(Self.close(code)) == [.close(UInt16(code))]) }

  /// RFC 6455, 7.4.1 and 7.4.2: codes that no endpoint sends.
  @Test(arguments: [0, 999, 1004, 1005, 1006, 1015, 1016, 2999, 5000, 65535])
  func refusesCloseCodes(_ code: Int) { #expect(violation(Self.close(code)) == .protocolError) }

  @Test(
    arguments: [
      // RFC 6455, 5.7: an unmasked text, ping and pong.
      ([0x81, 0x05, 0x48, 0x65, 0x6C, 0x6C, 0x6F], .protocolError), ([0x89, 0x05], .protocolError),
      ([0x8A, 0x00], .protocolError), ([0x88, 0x00], .protocolError),
      // A masked text, at once, whatever length follows; binary; the beginning of fragments.
      (frame(0x81, Array("Hello".utf8)), .policyViolation), ([0x81, 0xFE], .policyViolation),
      ([0x82, 0xFF], .policyViolation), ([0x01, 0x83], .policyViolation),
      (frame(0x80, [1]), .protocolError), (frame(0x00, [1]), .protocolError),
      (frame(0x83, []), .protocolError), (frame(0x87, []), .protocolError), (frame(0x8B, []), .protocolError),
      (frame(0x8F, []), .protocolError), (frame(0xC9, []), .protocolError), (frame(0xA9, []), .protocolError),
      (frame(0x99, []), .protocolError), (frame(0x09, []), .protocolError), (frame(0x08, []), .protocolError),
      ([0x89, 0xFE], .protocolError), ([0x88, 0xFF], .protocolError), (frame(0x88, [3]), .protocolError),
      (close(1000, [0xC3]), .invalidText), (close(1000, [0xED, 0xA0, 0x80]), .invalidText),
    ] as [([UInt8], WebSocketCloseCode)]) func refuses(_ octets: [UInt8], _ code: WebSocketCloseCode)
  {
    #expect(violation(octets) == code)
    // Nothing after it is read.
    #expect(events(octets + Self.frame(0x89, [])).count == 1)
  }

  private func violation(_ octets: [UInt8]) -> WebSocketCloseCode? {
    guard case .violation(let code, _)? = events(octets).first else { return nil }
    return code
  }

  /// RFC 6455, 5.7: the head of a text of 5 bytes, of 256 and of 65536 binary bytes, here as text.
  @Test(
    arguments: [
      (0, [0x81, 0x00]), (5, [0x81, 0x05]), (125, [0x81, 0x7D]), (126, [0x81, 0x7E, 0x00, 0x7E]),
      (256, [0x81, 0x7E, 0x01, 0x00]), (65535, [0x81, 0x7E, 0xFF, 0xFF]),
      (65536, [0x81, 0x7F, 0, 0, 0, 0, 0, 1, 0, 0]),
    ] as [(Int, [UInt8])]) func encodesText(_ count: Int, _ head: [UInt8])
  {
    var frames: [UInt8] = []
    let text = [UInt8](repeating: UInt8(ascii: "a"), count: count)
    WebSocketFrames.append(text: text.span, to: &frames)
    #expect(frames == head + text)
  }

  @Test func encodesControlFrames() {
    #expect(WebSocketFrames.pong(Array("Hello".utf8)) == [0x8A, 0x05, 0x48, 0x65, 0x6C, 0x6C, 0x6F])
    #expect(WebSocketFrames.close(1000, "bye") == [0x88, 0x05, 0x03, 0xE8] + "bye".utf8)
    #expect(WebSocketFrames.close(nil) == [0x88, 0x00])
  }
}

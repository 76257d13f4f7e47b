import BLELinux
import Daemon
import Foundation
import Testing

/// A local socket server serves every client, even if others misbehave.
@Suite struct RequestServerTests {
  /// A client sends a byte every tenth of a second and never completes its request; the next client is
  /// answered nevertheless.
  @Test func givesUpWhoNeverEndsItsQuestion() throws {
    let folder = FileManager.default.temporaryDirectory.appending(path: "ringtap-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    let path = folder.appending(path: "status").path
    let server = try RequestServer(path: path)
    try server.start { peer in
      let answer = Array("answer to \(peer.question)".utf8)
      peer.answer(answer.span)
    }
    defer { server.stop() }

    let slow = try ControllerPort.unix(path: path)
    let (octet, limit): ([UInt8], Int) = ([0x61], 300)
    var sent = 0
    while sent < limit, (try? slow.send(octet.span)) != nil {
      sent += 1
      var wanted = pollfd(fd: slow.rawValue, events: Int16(POLLIN), revents: 0)
      if poll(&wanted, 1, 100) > 0 { break }
    }
    #expect(sent > 1 && sent < limit)
    let answer = try RequestClient.answer(of: path, to: "text")
    #expect(String(decoding: answer, as: UTF8.self) == "answer to text\r\n\r\n")
  }

  /// Clients connect and send nothing: the next client is answered while they still may send a request. At
  /// the limit of clients, the one that has waited longest is disconnected.
  @Test(arguments: [1, 64, 100]) func aSilentPeerDelaysNobody(_ count: Int) throws {
    let path = FileManager.default.temporaryDirectory.appending(path: "ringtap-\(UUID().uuidString)").path
    let server = try RequestServer(path: path)
    try server.start { peer in
      let answer = Array("answer to \(peer.question)".utf8)
      peer.answer(answer.span)
    }
    defer { server.stop() }
    let silent = try (0..<count).map { _ in Silent(try ControllerPort.unix(path: path)) }
    let answer = try RequestClient.answer(of: path, to: "text")
    #expect(String(decoding: answer, as: UTF8.self) == "answer to text\r\n\r\n")
    #expect(silent.last?.isGivenUp == false)
    // The clients above the limit, and perhaps one more whose place the request took.
    #expect((max(0, count - 64)...max(0, count - 63)).contains(silent.count(where: \.isGivenUp)))
  }

  private final class Silent {
    private let descriptor: FileDescriptor

    init(_ descriptor: consuming FileDescriptor) { self.descriptor = descriptor }

    var isGivenUp: Bool {
      var wanted = pollfd(fd: descriptor.rawValue, events: Int16(POLLIN), revents: 0)
      return poll(&wanted, 1, 0) > 0
    }
  }

  /// The server removes its socket when it ends, unless another one has taken its path.
  @Test(arguments: [false, true]) func leavesNoSocket(_ isReplaced: Bool) throws {
    let path = FileManager.default.temporaryDirectory.appending(path: "ringtap-\(UUID().uuidString)").path
    defer { try? FileManager.default.removeItem(atPath: path) }
    let server = try RequestServer(path: path)
    #expect(FileManager.default.fileExists(atPath: path))
    if isReplaced {
      try FileManager.default.removeItem(atPath: path)
      try Data("mine".utf8).write(to: URL(filePath: path))
    }
    server.stop()
    #expect(FileManager.default.fileExists(atPath: path) == isReplaced)
  }
}

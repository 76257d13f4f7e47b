import BLELinux
import Foundation
import Testing

@Suite struct ReadingCommandTests {
  @Test func readsWhatIsWritten() throws {
    let path = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString).path
    defer { try? FileManager.default.removeItem(atPath: path) }
    let command = try #require(ReadingCommand("cat > '\(path)'"))
    let octets = [UInt8]("one\ntwo\n".utf8)
    try command.write(octets.span)
    command.finish()
    #expect(FileManager.default.contents(atPath: path) == Data(octets))
    #expect(Files.byteCount(of: path) == octets.count)
  }

  @Test func knowsNoLengthOfADirectory() { #expect(Files.byteCount(of: "/") == nil) }
}

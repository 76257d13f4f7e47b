import BLELinux
import Foundation
import TestKit
import Testing

private func contents(_ path: String) -> String {
  // Not `FileManager.contents(atPath:)`, which leaks a buffer if the file is empty.
  FileHandle(forReadingAtPath: path).map { String(decoding: $0.readDataToEndOfFile(), as: UTF8.self) }
    ?? "nothing"
}

@Suite struct FilesTests {
  @Test func makesParents() throws {
    try withFolder { folder in
      let path = folder + "/a/b//c/"
      try Files.createDirectory(path)
      try Files.createDirectory(path)
      #expect(Files.exists(folder + "/a/b/c"))
      #expect(!Files.exists(folder + "/d"))
      try Data("x\n".utf8).write(to: URL(filePath: folder + "/a/file"))
      #expect(Set(Files.names(in: folder + "/a")) == [".", "..", "b", "file"])
      #expect(Files.text(at: folder + "/a/file") == "x\n")
      #expect(Files.text(at: folder + "/a/none") == nil)
      #expect(Files.names(in: folder + "/none").isEmpty)
    }
  }

  @Test func tellsAFileInTheWay() throws {
    try withFolder { folder in
      try Data().write(to: URL(filePath: folder + "/file"))
      do throws(SystemError) {
        try Files.createDirectory(folder + "/file/below")
        Issue.record("a file is no folder")
      } catch { #expect(error.number == ENOTDIR) }
    }
  }
}

@Suite struct SystemErrorTests {
  @Test func saysWhichCallAndWhy() {
    #expect(
      "\(SystemError(call: "connect(L2CAP)", number: ECONNREFUSED))" == "connect(L2CAP): Connection refused")
  }

  @Test func interruptedCallsAreTriedAgain() throws {
    var attempts = 0
    let result = try checked("read") {
      attempts += 1
      errno = EINTR
      return attempts < 3 ? -1 : 7
    }
    #expect(result == 7)
    #expect(attempts == 3)
  }
}

@Suite struct LinkTests {
  @Test func readsAndResolves() throws {
    try withFolder { folder in
      try Files.createDirectory(folder + "/a")
      try Files.link(folder + "/link", to: folder + "/a")
      #expect(Files.target(ofLink: folder + "/link") == folder + "/a")
      #expect(Files.target(ofLink: folder + "/a") == nil)
      let real = Files.absolute(folder + "/a")
      #expect(real?.hasSuffix("/a") == true)
      #expect(Files.absolute(folder + "/link/../link") == real)
      #expect(Files.absolute(folder + "/none") == nil)
    }
  }
}

@Suite struct ReplacedFileTests {
  @Test func replacesAFileAsAWhole() throws {
    try withFolder { folder in
      let path = folder + "/state"
      let (old, new) = (Array("the old content\n".utf8), Array("new\n".utf8))
      try Files.replace(path, with: old.span, mode: 0o600)
      let reader = try #require(FileHandle(forReadingAtPath: path))
      try Files.replace(path, with: new.span, mode: 0o600)
      #expect(contents(path) == "new\n")
      #expect(try reader.readToEnd() == Data(old))
      let mode = try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions]
      #expect(mode as? Int == 0o600)
      #expect(try FileManager.default.contentsOfDirectory(atPath: folder) == ["state"])
      #expect(try Files.octets(of: path, limit: 4) == new)
      #expect(throws: SystemError(call: "read \(path)", number: EFBIG)) {
        try Files.octets(of: path, limit: 3)
      }
    }
  }

  /// A folder has the file's name: the rename fails, and no draft is left.
  @Test func leavesNothingWhereItFails() throws {
    try withFolder { folder in
      try Files.createDirectory(folder + "/state/full")
      let octets = Array("new\n".utf8)
      #expect(throws: SystemError.self) { try Files.replace(folder + "/state", with: octets.span) }
      #expect(try FileManager.default.contentsOfDirectory(atPath: folder) == ["state"])
    }
  }
}

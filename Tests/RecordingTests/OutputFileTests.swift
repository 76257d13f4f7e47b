import BLELinux
import CTestSystem
import Foundation
import Recording
import TestKit
import Testing

private func wholeText(_ path: String) -> String {
  // Not `FileManager.contents(atPath:)`, which leaks a buffer if the file is empty.
  FileHandle(forReadingAtPath: path).map { String(decoding: $0.readDataToEndOfFile(), as: UTF8.self) }
    ?? "nothing"
}

@Suite struct OutputFileTests {
  @Test func writesWholeUnits() throws {
    try withFolder { folder in
      let path = folder + "/rows"
      var file = try OutputFile(creating: path, ifExists: .fail)
      try file.append { $0 += "header\n".utf8 }
      try file.append { $0 += "one\n".utf8 }
      let (isPending, before) = (file.isPending, file.writtenUnits)
      #expect(isPending && before == 0)
      #expect(wholeText(path) == "")
      try file.flush()
      let (isPendingStill, after) = (file.isPending, file.writtenUnits)
      #expect(!isPendingStill && after == 2)
      #expect(wholeText(path) == "header\none\n")
    }
  }

  /// A full buffer is flushed automatically.
  @Test func flushesALot() throws {
    try withFolder { folder in
      let path = folder + "/rows"
      var file = try OutputFile(creating: path, ifExists: .fail)
      for number in 0..<20_000 { try file.append { $0 += "row \(number)\n".utf8 } }
      let written = file.writtenUnits
      #expect(written > 0 && written < 20_000)
      try file.flush()
      let all = file.writtenUnits
      #expect(all == 20_000)
      #expect(wholeText(path).split(separator: "\n").count == 20_000)
    }
  }

  @Test func refusesToReplaceWhenAsked() throws {
    try withFolder { folder in
      let path = folder + "/session.json"
      try Data("precious".utf8).write(to: URL(filePath: path))
      do throws(SystemError) {
        _ = try OutputFile(creating: path, ifExists: .fail)
        Issue.record("it is there already")
      } catch { #expect(error.number == EEXIST) }
      #expect(wholeText(path) == "precious")
      var file = try OutputFile(creating: path, ifExists: .replace)
      try file.append { $0 += "new".utf8 }
      try file.flush()
      #expect(wholeText(path) == "precious", "until it is finished")
      try file.finish()
      #expect(wholeText(path) == "new")
      _ = try OutputFile(creating: path, ifExists: .replace)
      #expect(wholeText(path) == "new" && Set(Files.names(in: folder)) == [".", "..", "session.json"])
    }
  }

  /// `/dev/full`, on which the kernel reports a full disk.
  @Test func tellsAFullDisk() throws {
    var file = try OutputFile(creating: "/dev/full", ifExists: .replace)
    try file.append { $0 += "row\n".utf8 }
    for _ in 0..<2 {
      do throws(SystemError) {
        try file.flush()
        Issue.record("the disk is full")
      } catch { #expect(error == SystemError(call: "write /dev/full", number: ENOSPC)) }
    }
    do throws(SystemError) {
      try file.append { $0 += "row\n".utf8 }
      Issue.record("the disk is full")
    } catch { #expect(error.number == ENOSPC) }
    let (written, isPending) = (file.writtenUnits, file.isPending)
    #expect(written == 0 && !isPending)
  }

  /// A file size limit cuts a write in the middle of a row, as a disk does when it becomes full.
  @Test func cutsBackToTheLastWholeUnit() async {
    await #expect(processExitsWith: .success) {
      signal(SIGXFSZ, SIG_IGN)
      var limit = rlimit(rlim_cur: 1_000, rlim_max: 1_000)
      #expect(setrlimit(__rlimit_resource_t(RLIMIT_FSIZE.rawValue), &limit) == 0)
      try withFolder { folder in
        let path = folder + "/rows"
        var file = try OutputFile(creating: path, ifExists: .fail)
        try file.append { $0 += "header\n".utf8 }
        try file.flush()
        for number in 100..<200 { try file.append { $0 += "the row number \(number) of all\n".utf8 } }
        do throws(SystemError) {
          try file.flush()
          Issue.record("1,000 octets are the limit")
        } catch { #expect(error.number == EFBIG) }
        // A header of 7 bytes and 38 rows of 26 bytes are 995 bytes; one more row would be 1,021.
        let written = file.writtenUnits
        let text = wholeText(path)
        #expect(text.hasSuffix("of all\n"))
        #expect(text.split(separator: "\n").count == written)
        #expect(text.utf8.count == 7 + (written - 1) * 26)
        #expect((1_000 - 26 + 1...1_000).contains(text.utf8.count))
      }
    }
  }

  /// A file that was preallocated is rewritten in place even if no file can grow.
  @Test func replacesInPlace() throws {
    try withFolder { folder in
      let path = folder + "/session.json"
      var file = try OutputFile(creating: path, ifExists: .fail)
      let (long, short) = ([UInt8](repeating: 0x20, count: 4096), Array("{}\n".utf8))
      try file.replace(with: long.span)
      #expect(wholeText(path).utf8.count == 4096)
      try file.replace(with: short.span)
      #expect(wholeText(path) == "{}\n")
    }
  }
}

@Suite struct FileReplacementTests {
  /// Readers that have the old file open keep its full content. Nothing else is left in the folder.
  @Test func putsANewFileInItsPlace() throws {
    try withFolder { folder in
      let (path, open) = (folder + "/session.json", try OpenFolder(folder))
      var file = try OutputFile(creating: "session.json", in: open, path)
      try file.replace(with: Array("{\"old\":1}\n".utf8).span)
      let before = try #require(FileHandle(forReadingAtPath: path))
      try file.replace(with: Array("{}\n".utf8).span, in: open)
      #expect(wholeText(path) == "{}\n")
      #expect(before.readDataToEndOfFile() == Data("{\"old\":1}\n".utf8))
      let isGone = file.isGone(from: open)
      #expect(!isGone)
      #expect(Set(Files.names(in: folder)) == [".", "..", "session.json"])
    }
  }

  /// Without space for a second file, the old one is rewritten in place.
  @Test func replacesInPlaceWhereADraftFindsNoRoom() async {
    await #expect(processExitsWith: .success) {
      test_fill("/session.json.new")
      defer { test_fill("") }
      try withFolder { folder in
        let (path, open) = (folder + "/session.json", try OpenFolder(folder))
        var file = try OutputFile(creating: "session.json", in: open, path)
        try file.replace(with: Array("{\"old\":1}\n".utf8).span)
        let before = try #require(FileHandle(forReadingAtPath: path))
        try file.replace(with: Array("{}\n".utf8).span, in: open)
        #expect(before.readDataToEndOfFile() == Data("{}\n".utf8))
        #expect(Set(Files.names(in: folder)) == [".", "..", "session.json"])
      }
    }
  }
}

@Suite struct LockedFileTests {
  @Test func saysWhetherItsWriterLives() throws {
    try withFolder { folder in
      let path = folder + "/word"
      // The draft that a killed process left.
      try Data("old".utf8).write(to: URL(filePath: path))
      let stale = try LockWatch(path)
      let before = stale.isHeld
      #expect(!before)
      var file: LockedFile? = try LockedFile(creating: path, Array("new".utf8))
      #expect(wholeText(path) == "new")
      #expect(Set(Files.names(in: folder)) == [".", "..", "word"])
      let watch = try LockWatch(path)
      let (during, again, old) = (watch.isHeld, watch.isHeld, stale.isHeld)
      #expect(during && again)
      #expect(!old, "another file had that name")
      file = nil
      let after = watch.isHeld
      #expect(!after)
      #expect(file == nil && !Files.exists(path))
    }
  }

  @Test func tellsWhatIsNotThere() throws {
    try withFolder { folder in
      do throws(SystemError) {
        _ = try LockWatch(folder + "/none")
        Issue.record("nothing is there")
      } catch { #expect(error.number == ENOENT) }
    }
  }
}

extension OutputFileTests {
  /// A sync covers the data that the kernel has, not the data still in the buffer.
  @Test func syncsWhatTheKernelHas() throws {
    try withFolder { folder in
      var file = try OutputFile(creating: folder + "/rows", ifExists: .fail)
      try file.append { $0 += "one\n".utf8 }
      let waiting = file.isUnsynced
      try file.flush()
      let flushed = file.isUnsynced
      try file.sync()
      let synced = file.isUnsynced
      #expect(!waiting && flushed && !synced)
    }
  }

  /// Syncing a device succeeds although it has no disk.
  @Test func syncsADevice() throws {
    var file = try OutputFile(creating: "/dev/null", ifExists: .replace)
    try file.append { $0 += "one\n".utf8 }
    try file.flush()
    try file.sync()
    let isUnsynced = file.isUnsynced
    #expect(!isUnsynced)
  }

  @Test func noticesThatAPipesReaderHasGone() throws {
    try withFolder { folder in
      let path = folder + "/pipe"
      #expect(mkfifo(path, 0o600) == 0)
      let reader = open(path, O_RDONLY | O_NONBLOCK)
      let file = try OutputFile(creating: path, ifExists: .replace)
      let before = file.hasLostItsReader
      close(reader)
      let after = file.hasLostItsReader
      #expect(!before && after)
    }
  }
}

/// Writing to a path that the user gave.
@Suite struct NamedOutputTests {
  private let octets = Array("new".utf8)

  /// A link is replaced; its target is unchanged.
  @Test func replacesALink() throws {
    try withFolder { folder in
      let (path, victim) = (folder + "/page", folder + "/victim")
      for write in [
        { try Files.write($0, to: path, ifExists: .replace) }, { try Files.replace(path, with: $0) },
      ]
        as [(Span<UInt8>) throws -> Void]
      {
        try Data("precious".utf8).write(to: URL(filePath: victim))
        try Files.remove(path)
        try Files.link(path, to: victim)
        try write(octets.span)
        #expect(wholeText(victim) == "precious" && wholeText(path) == "new")
        #expect(Files.target(ofLink: path) == nil)
      }
      #expect(Set(Files.names(in: folder)) == [".", "..", "page", "victim"], "no draft is left")
    }
  }

  /// Without permission to replace, an existing file or link stays, even if it appeared while the new file
  /// was written.
  @Test func leavesWhatIsThere() throws {
    func number(of body: () throws -> Void) -> Int32? {
      do { try body() } catch { return (error as? SystemError)?.number }
      return nil
    }
    try withFolder { folder in
      let (path, link, free) = (folder + "/page", folder + "/link", folder + "/free")
      try Data("precious".utf8).write(to: URL(filePath: path))
      try Files.link(link, to: folder + "/nowhere")
      #expect(number { try Files.write(octets.span, to: path, ifExists: .refuse) } == EEXIST)
      #expect(number { try Files.write(octets.span, to: link, ifExists: .refuse) } == EEXIST)
      var file = try OutputFile(creating: free, ifExists: .refuse)
      try file.append { $0 += octets }
      try Data("precious".utf8).write(to: URL(filePath: free))
      do throws(SystemError) {
        try file.finish()
        Issue.record("it is there by now")
      } catch { #expect(error.number == EEXIST) }
      #expect(wholeText(path) == "precious" && wholeText(free) == "precious")
    }
    try withFolder { folder in
      try Files.write(octets.span, to: folder + "/page", ifExists: .refuse)
      #expect(wholeText(folder + "/page") == "new" && Files.names(in: folder).count == 3)
      try Files.write(octets.span, to: "/dev/null", ifExists: .refuse)
    }
  }

  @Test func tellsWhatANewFileWouldReplace() throws {
    try withFolder { folder in
      let (path, hard, pipe) = (folder + "/a", folder + "/b", folder + "/pipe")
      try Data("a".utf8).write(to: URL(filePath: path))
      #expect(Glibc.link(path, hard) == 0 && mkfifo(pipe, 0o600) == 0)
      try Files.link(folder + "/c", to: path)
      try Files.link(folder + "/d", to: folder + "/nowhere")
      for name in ["a", "b", "c", "d", ""] { #expect(Files.isOccupied("\(folder)/\(name)"), "\(name)") }
      for name in [folder + "/none", pipe, "/dev/null", "/dev/stdout", "/dev/fd/1"] {
        #expect(!Files.isOccupied(name), "\(name)")
      }
      #expect(Files.areSame(path, hard) && Files.areSame(hard, folder + "/c") && !Files.areSame(path, pipe))
    }
  }

  /// A dangling link is not followed: its target is not created.
  @Test func followsNoLinkThatLeadsNowhere() throws {
    try withFolder { folder in
      for name in ["a", "b"] { try Files.link("\(folder)/\(name)", to: folder + "/made") }
      try Files.write(octets.span, to: folder + "/a", ifExists: .replace)
      #expect(throws: SystemError.self) { _ = try OutputFile(creating: folder + "/b", ifExists: .fail) }
      #expect(throws: SystemError.self) {
        _ = try OutputFile(creating: folder + "/b", ifExists: .extend(byteCount: 0))
      }
      #expect(!Files.exists(folder + "/made"))
    }
  }

  @Test func writesPipesAndDescriptorsInPlace() throws {
    try withFolder { folder in
      let path = folder + "/pipe"
      #expect(mkfifo(path, 0o600) == 0)
      let reader = open(path, O_RDWR | O_NONBLOCK)
      defer { close(reader) }
      for name in [path, "/dev/fd/\(reader)", "/proc/self/fd/\(reader)", "/dev/null"] {
        try Files.write(octets.span, to: name, ifExists: .replace)
      }
      var text = [UInt8](repeating: 0, count: 100)
      #expect(read(reader, &text, 100) == 9)
      #expect(Files.names(in: folder).count == 3)
      // A path that the program chose itself becomes a regular file, even if a link was put in its place.
      try Files.replace(path, with: octets.span)
      #expect(wholeText(path) == "new")
      #expect(throws: SystemError.self) {
        try Files.write(octets.span, to: "/dev/fd/900", ifExists: .replace)
      }
      #expect(throws: SystemError.self) { try Files.write(octets.span, to: folder, ifExists: .replace) }
    }
  }

  /// A file that only its owner could read stays private when it is replaced.
  @Test func keepsWhatWasPrivate() throws {
    try withFolder { folder in
      let path = folder + "/page"
      try Files.write(octets.span, to: path, ifExists: .replace)
      #expect(chmod(path, 0o600) == 0)
      try Files.write(octets.span, to: path, ifExists: .replace)
      var status = stat()
      #expect(stat(path, &status) == 0 && status.st_mode & 0o777 == 0o600)
    }
  }

  /// A removed file is not recreated with a hole at its start.
  @Test func extendsNothingThatHasGone() throws {
    try withFolder { folder in
      let path = folder + "/rows"
      #expect(throws: SystemError.self) {
        _ = try OutputFile(creating: path, ifExists: .extend(byteCount: 100))
      }
      #expect(!Files.exists(path))
      try Files.write(octets.span, to: path, ifExists: .replace)
      #expect(throws: SystemError.self) {
        _ = try OutputFile(creating: path, ifExists: .extend(byteCount: 100))
      }
      #expect(wholeText(path) == "new")
    }
  }
}

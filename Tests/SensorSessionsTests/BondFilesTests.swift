import BLEHost
import BLEStack
import BLEWire
import Foundation
import SensorSessions
import Testing

/// Bond files: complete, private, and readable after a restart.
@Suite struct BondFilesTests {
  private let folder = FileManager.default.temporaryDirectory.path + "/ringtap-bonds-\(UUID().uuidString)"
  private let device = DeviceAddress(bits: 0xC412_3456_789A, type: .random)

  private var stored: StoredBond {
    StoredBond(
      device: device, local: DeviceAddress(bits: 0xF000_0000_0001, type: .random),
      bond: Bond(
        isAuthenticated: true, isSecureConnections: false, keyByteCount: 16, isBonded: true,
        peerKey: LongTermKey(
          key: 0x0087_e13b_b101_e5a8_0830_73f3_ff16_9b2f, diversifier: 0xf8e0, random: .max),
        peerIdentity: DeviceIdentity(resolvingKey: 0xab, address: device), peerSigningKey: 1))
  }

  @Test func keepsAndFinds() throws {
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let files = BondFiles(in: folder) { Issue.record("\($0)") }
    #expect(files.bonds().isEmpty)
    files.keep(stored)
    #expect(files.bonds() == [stored])
    let again = BondFiles(in: folder) { Issue.record("\($0)") }
    #expect(again.bonds() == [stored])
    let path = folder + "/C4-12-34-56-78-9A-random.bond"
    let modes = try [path, folder].map {
      try FileManager.default.attributesOfItem(atPath: $0)[.posixPermissions] as? Int
    }
    #expect(modes == [0o600, 0o700])
    let text = try String(contentsOfFile: path, encoding: .utf8)
    #expect(text.contains("\"key\":\"0087e13bb101e5a8083073f3ff169b2f\""))
    #expect(try again.forget(device))
    #expect(!FileManager.default.fileExists(atPath: path))
    #expect(again.bonds().isEmpty)
    #expect(try !again.forget(device))
  }

  /// The file stores the next counter before a counter is used, so that a restart after a crash continues
  /// behind it.
  @Test func usesNoSignCounterTwice() throws {
    defer { try? FileManager.default.removeItem(atPath: folder) }
    var stored = stored
    stored.bond.localSigningKey = 7
    let files = BondFiles(in: folder) { Issue.record("\($0)") }
    #expect(files.takeSignCounter(of: device) == nil)
    files.keep(stored)
    let path = folder + "/C4-12-34-56-78-9A-random.bond"
    for counter in 0..<3 as Range<UInt32> {
      #expect(files.takeSignCounter(of: device) == counter)
      let text = try String(contentsOfFile: path, encoding: .utf8)
      #expect(text.contains("\"localSignCounter\":\(counter + 1)"))
    }
    // Another process, then the first one again, which has not reread the file.
    let again = BondFiles(in: folder) { Issue.record("\($0)") }
    #expect(again.takeSignCounter(of: device) == 3)
    #expect(files.takeSignCounter(of: device) == 4)
    // A new pairing resets the counter.
    stored.bond.localSigningKey = 8
    files.keep(stored)
    #expect(files.takeSignCounter(of: device) == 0)
  }

  /// A counter that cannot be stored is not used.
  @Test func signsNothingWhereNothingIsKept() throws {
    defer { try? FileManager.default.removeItem(atPath: folder) }
    var stored = stored
    stored.bond.localSigningKey = 7
    let warnings = Warnings()
    let files = BondFiles(in: folder) { warnings.lines.append($0) }
    files.keep(stored)
    try FileManager.default.removeItem(atPath: folder)
    // A file in the folder's place, because root may write into any folder.
    try Data().write(to: URL(filePath: folder))
    #expect(files.takeSignCounter(of: device) == nil)
    #expect(warnings.lines.count == 1)
  }

  /// A counter is accepted once, also across runs. If it cannot be stored, nothing is accepted.
  @Test func acceptsNothingTwice() throws {
    defer { try? FileManager.default.removeItem(atPath: folder) }
    var stored = stored
    // From BlueZ, unit/test-crypto.c, counter 1.
    stored.bond.peerSigningKey = 0x611b_64eb_fbcd_1fd3_72ec_9196_df42_5e50
    let message: [UInt8] = [0xD2, 0x12, 0, 0x13, 0x37]
    let octets = message + [1, 0, 0, 0, 0xF1, 0x87, 0x1E, 0x93, 0x3C, 0x90, 0x0F, 0xF2]
    func isAccepted(by files: BondFiles) throws -> Bool {
      let command = try SignedWriteCommand(validating: octets.span)
      return files.accepts(command, from: device)
    }
    let warnings = Warnings()
    let files = BondFiles(in: folder) { warnings.lines.append($0) }
    #expect(try !isAccepted(by: files))
    files.keep(stored)
    try FileManager.default.removeItem(atPath: folder)
    // A file in the folder's place, because root may write into any folder.
    try Data().write(to: URL(filePath: folder))
    #expect(try !isAccepted(by: files))
    #expect(warnings.lines.count == 1)
    try FileManager.default.removeItem(atPath: folder)
    #expect(try isAccepted(by: files))
    #expect(try !isAccepted(by: files))
    #expect(try !isAccepted(by: BondFiles(in: folder) { Issue.record("\($0)") }))
    #expect(warnings.lines.count == 1)
  }

  @Test(arguments: [
    // Found by fuzzing bond files: an unreadable key was skipped, but its counter was kept.
    """
    {"version":1,"address":"00:00:00:00:00:01","addressType":"public","localAddress":"00:00:5E:00:53:01",
    "localAddressType":"public","authenticated":true,"secureConnections":false,"keySize":15,
    "localSigningKey":"0123456789abcdef01234?6789abcdef","localSignCounter":7}
    """,
    "", "{}", "{\"version\":2}", "{\"version\":1,\"address\":\"C4:12:34:56:78:9A\"}", "\u{0}",
  ])
  func leavesOutWhatIsDamaged(_ content: String) throws {
    defer { try? FileManager.default.removeItem(atPath: folder) }
    BondFiles(in: folder) { Issue.record("\($0)") }.keep(stored)
    let path = folder + "/00-00-00-00-00-01-public.bond"
    try Data(content.utf8).write(to: URL(filePath: path))
    let warnings = Warnings()
    #expect(BondFiles(in: folder) { warnings.lines.append($0) }.bonds() == [stored])
    #expect(warnings.lines.count == 1)
    #expect(warnings.lines.first?.hasPrefix(path) == true)
    #expect(FileManager.default.fileExists(atPath: path))
  }
}

private final class Warnings: @unchecked Sendable {
  // Needs no lock: used by one test on one thread.
  var lines: [String] = []
}

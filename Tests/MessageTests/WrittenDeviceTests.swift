import BLEEmulation
import BLEStack
import BLEWire
import TestKit
import Testing

@testable import Commands

/// The file of `serve` as people may mistype it: each is a device, or an error in one of its lines.
@Suite struct WrittenDeviceTests {
  private static let file = """
    device "Polar H10"   
    advertise "Heart Rate", 180f
    service 0x0001-0x0005 "Generic Access"
      characteristic 0x0002 2a00 read = "Polar \\"H10\\""
      characteristic Appearance read = u16 833
    service 0x0010-0x0020 "Heart Rate"
      include 0x0030
      characteristic "Heart Rate Measurement" notify
      characteristic 0x0015 2a38 [read, indicate] = 01   # chest
        descriptor 0x0018 2901 encrypted = "rate"
    service 0x0030-0xffff 180f
      characteristic 2a19 read notify authenticated = hex 00 u8 57 i32 -1
      0x0040 2803 02 4100 192a
      0x0041 2a19 64*3
    needs encrypted "Body Sensor Location" 0x0041

    """

  @Test func parsesTheFile() throws {
    let device = try WrittenDevice.parse(Self.file)
    #expect(device.name == "Polar H10")
    #expect(device.advertised == [.heartRate, BluetoothUUID(0x180F)])
    #expect(device.services.map(\.uuid.short) == [0x1800, 0x180D, 0x180F])
    #expect(device.services.map(\.characteristics.count) == [2, 2, 2])
    #expect(device.services[0].characteristics[0].value == Array("Polar \"H10\"".utf8))
    #expect(device.services[0].characteristics[1].value == [0x41, 0x03])
    #expect(device.services[1].includes == [2])
    #expect(device.services[1].characteristics[1].readAccess == .needs(.encrypted))
    #expect(device.services[2].characteristics[0].value == [0x00, 57, 0xFF, 0xFF, 0xFF, 0xFF])
    #expect(device.services[2].characteristics[0].writeAccess == .refused(.writeNotPermitted))
    #expect(device.services[2].characteristics[1].value == [0x64, 0x64, 0x64])
    // The database that `serve` builds from it has the handles of the file.
    let attributes = GATTServerDatabase(device.services).attributes
    #expect(attributes.first { $0.handle.rawValue == 0x15 }?.type == .characteristic)
    #expect(attributes.first { $0.handle.rawValue == 0x18 }?.value == Array("rate".utf8))
    #expect(attributes.first { $0.handle.rawValue == 0x10 }?.groupEnd.rawValue == 0x20)
  }

  /// Words that are moved, dropped, doubled or replaced.
  @Test(arguments: 0..<8) func survivesAnyEdit(_ seed: UInt64) {
    var random = SeededGenerator(state: seed)
    let words = Self.file.split(separator: " ", omittingEmptySubsequences: false).map { String($0) }
    let others = [
      "", "\"", "=", "\n", "0xffff", "0x0000", "0xfffe 2a19 notify", "2902", "u64", "-1", "none", "#",
      "2800 0d18",
      "include 180d\n", "service", "characteristic 2a37 notify\n", "descriptor", "\\", "99999999999999999999",
      "é", "\0",
    ]
    let lineCount = Self.file.split(separator: "\n", omittingEmptySubsequences: false).count
    for _ in 0..<100 {
      var edited = words
      for _ in 0..<Int.random(in: 1...3, using: &random) {
        let place = Int.random(in: 0..<edited.count, using: &random)
        switch Int.random(in: 0..<4, using: &random) {
        case 0: edited.remove(at: place)
        case 1: edited.insert(edited[place], at: Int.random(in: 0...edited.count, using: &random))
        case 2: edited[place] = others.randomElement(using: &random) ?? ""
        default: edited.swapAt(place, Int.random(in: 0..<edited.count, using: &random))
        }
      }
      let text = edited.joined(separator: " ")
      do throws(DeviceFileError) {
        // Traps if the handles contradict each other.
        _ = GATTServerDatabase(try WrittenDevice.parse(text).services)
      } catch {
        #expect((0...lineCount + 12).contains(error.line), "\(text)")
        #expect(!error.reason.isEmpty && !error.reason.contains("Fault("), "\(error)")
      }
    }
  }
}

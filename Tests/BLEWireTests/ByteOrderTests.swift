import BLEWire
import Testing

/// Copies and numbers that are processed several bytes at a time.
@Suite struct ByteOrderTests {
  /// Blocks of 16, 8 and 4 bytes and the remainder, after an existing byte.
  @Test(arguments: 0...70)
  func appendsEachLength(_ count: Int) {
    let octets = (0..<count).map { UInt8($0 * 7 % 251) }
    let written = [UInt8](encoding: 1 + count) {
      $0.append(0xEE)
      $0.append(octets.span)
    }
    #expect(written == [0xEE] + octets)
    var array: [UInt8] = [0xEE]
    array.append(copying: octets.span)
    #expect(array == [0xEE] + octets)
  }

  @Test func writesLittleEndian() {
    let written = [UInt8](encoding: 17) {
      $0.append(u16: 0x0102)
      $0.append(u24: 0x03_0405)
      $0.append(u32: 0x0607_0809)
      $0.append(u64: 0x0A0B_0C0D_0E0F_1011)
    }
    #expect(written == [2, 1, 5, 4, 3, 9, 8, 7, 6, 0x11, 0x10, 0x0F, 0x0E, 0x0D, 0x0C, 0x0B, 0x0A])
  }

  @Test func readsAtAnOffset() {
    let octets: [UInt8] = [0xFF, 1, 2, 3, 4, 5, 6, 7, 8]
    let (u24, u32, u64) = (octets.span.u24(at: 1), octets.span.u32(at: 1), octets.span.u64(at: 1))
    #expect(u24 == 0x03_0201)
    #expect(u32 == 0x0403_0201)
    #expect(u64 == 0x0807_0605_0403_0201)
    let (big32, big64) = (octets.span.u32BE(at: 5), octets.span.u64BE(at: 1))
    #expect(big32 == 0x0506_0708)
    #expect(big64 == 0x0102_0304_0506_0708)
  }

  /// A copy that does not fit is a programming error and traps.
  @Test func trapsWithoutRoom() async {
    await #expect(processExitsWith: .failure) {
      let octets = [UInt8](repeating: 1, count: 20)
      _ = [UInt8](encoding: 19) { $0.append(octets.span) }
    }
    await #expect(processExitsWith: .failure) {
      let octets: [UInt8] = [1, 2, 3]
      _ = octets.span.u32(at: 0)
    }
  }
}

import BLESensors
import Testing

/// Number formats of IEEE 11073-20601; values from the standard's table and the "Personal Health Devices
/// Transcoding" white paper, 2.2.
@Suite struct IEEE11073FloatTests {
  @Test(
    arguments: [
      (0x007F_FFFF, .nan), (0x0080_0000, .notAtThisResolution), (0x007F_FFFE, .positiveInfinity),
      (0x0080_0002, .negativeInfinity), (0x0080_0001, .reserved),
    ] as [(UInt32, IEEE11073Special)])
  func knowsWhatIsNoNumber(_ word: UInt32, _ special: IEEE11073Special) {
    let number = IEEE11073Float(bitPattern: word)
    #expect(number.special == special)
    #expect(number.value == nil)
    #expect(IEEE11073Float(special).bitPattern == word)
    // Special only with exponent 0.
    for exponent in [1, 0x7F, 0x80, 0xFF] as [UInt32] {
      #expect(IEEE11073Float(bitPattern: exponent << 24 | word).special == nil)
    }
  }

  @Test(
    arguments: [
      (0x07FF, .nan), (0x0800, .notAtThisResolution), (0x07FE, .positiveInfinity),
      (0x0802, .negativeInfinity),
      (0x0801, .reserved),
    ] as [(UInt16, IEEE11073Special)])
  func knowsWhatIsNoShortNumber(_ word: UInt16, _ special: IEEE11073Special) {
    let number = IEEE11073ShortFloat(bitPattern: word)
    #expect(number.special == special)
    #expect(number.value == nil)
    #expect(IEEE11073ShortFloat(special).bitPattern == word)
    for exponent in 1...15 as ClosedRange<UInt16> {
      #expect(IEEE11073ShortFloat(bitPattern: exponent << 12 | word).special == nil)
    }
  }

  /// 36.4 °C is FF 00 01 6C in the white paper; the values next to the special ones are ordinary numbers.
  @Test(
    arguments: [
      (0xFF00_016C, 364, -1, 36.4), (0xFE00_0AA0, 2720, -2, 27.2), (0xFF7F_FFFF, 8_388_607, -1, 838_860.7),
      (0x007F_FFFD, 8_388_605, 0, 8_388_605), (0x0080_0003, -8_388_605, 0, -8_388_605),
      (0x00FF_FFFF, -1, 0, -1),
      (0xFFFF_FFC9, -55, -1, -5.5), (0x0500_0001, 1, 5, 100_000), (0x8000_0001, 1, -128, 1e-128),
      (0x7F7F_FFFF, 8_388_607, 127, 8_388_607e127), (0, 0, 0, 0),
    ] as [(UInt32, Int32, Int8, Double)])
  func keepsBothParts(_ word: UInt32, _ mantissa: Int32, _ exponent: Int8, _ value: Double) {
    let number = IEEE11073Float(bitPattern: word)
    #expect(number.mantissa == mantissa)
    #expect(number.exponent == exponent)
    #expect(number.value == value)
    #expect(IEEE11073Float(mantissa: mantissa, exponent: exponent).bitPattern == word)
  }

  /// 0x0072 is 114 in the white paper.
  @Test(
    arguments: [
      (0x0072, 114, 0, 114), (0xF001, 1, -1, 0.1), (0xF3D4, 980, -1, 98), (0x8FFF, -1, -8, -1e-8),
      (0x77FF, 2047, 7, 2047e7), (0x0803, -2045, 0, -2045), (0xFE01, -511, -1, -51.1),
    ] as [(UInt16, Int16, Int8, Double)])
  func keepsBothPartsOfShortOnes(_ word: UInt16, _ mantissa: Int16, _ exponent: Int8, _ value: Double) {
    let number = IEEE11073ShortFloat(bitPattern: word)
    #expect(number.mantissa == mantissa)
    #expect(number.exponent == exponent)
    #expect(number.value == value)
    #expect(IEEE11073ShortFloat(mantissa: mantissa, exponent: exponent).bitPattern == word)
  }

  @Test func everyShortWordSurvives() {
    for word in UInt16.min...UInt16.max where IEEE11073ShortFloat(bitPattern: word).bitPattern != word {
      Issue.record("\(word)")
    }
  }
}

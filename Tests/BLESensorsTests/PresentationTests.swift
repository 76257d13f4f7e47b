import BLESensors
import BLEWire
import TestKit
import Testing

/// Formats of Bluetooth Assigned Numbers, 2.4.1, units of 3.5. The first is GPA/BV-12-C of the SIG's test suite.
@Suite struct PresentationTests {
  @Test(
    arguments: [
      (0x0E, -5, 0x27AC, "25f0", "-0.04059 °F"), (0x06, -2, 0x272F, "1a0e", "36.10 °C"),
      (0x04, 0, 0x27AD, "64", "100 %"), (0x04, 2, 0x2724, "05", "500 Pa"), (0x04, 0, 0x2700, "00", "0"),
      (0x06, -2, 0x2701, "0000", "0.00 m"), (0x01, 0, 0x2700, "01", "true"), (0x02, 0, 0x2700, "ff", "3"),
      (0x03, 0, 0x2700, "fe", "14"), (0x05, 0, 0x2700, "ffff", "4095"), (0x0D, 0, 0x2700, "ff0f", "-1"),
      (0x07, 0, 0x2700, "ffffff", "16777215"), (0x0F, 0, 0x2700, "ffffff", "-1"),
      (0x09, 0, 0x2700, "ffffffffffff", "281474976710655"),
      (0x0A, 0, 0x2700, "ffffffffffffffff", "18446744073709551615"),
      (0x12, -1, 0x2703, "0000000000000080", "-922337203685477580.8 s"), (0x0C, -19, 0x2700, "07", "7e-19"),
      (0x14, 0, 0x2702, "0000c03f", "1.5 kg"), (0x15, 0, 0x2700, "000000000000f83f", "1.5"),
      (0x16, 0, 0x2781, "75f0", "11.7 mmHg"), (0x16, 0, 0x2700, "ff07", "no value"),
      (0x17, 0, 0x272F, "6a0e00fe", "36.90 °C"), (0x19, 0, 0x2700, "c3a9", "é"),
      (0x1A, 0, 0x2700, "e900", "é"),
      (0x0B, 0, 0x2700, "000102030405060708090a0b0c0d0e0f", "000102030405060708090a0b0c0d0e0f"),
      (0x1B, 0, 0x2700, "0102", "0102"), (0x77, 0, 0x1234, "0102", "0102 unit 0x1234"),
    ] as [(UInt8, Int8, UInt16, String, String)])
  func showsNumbersWithTheirUnits(
    _ format: UInt8, _ exponent: Int8, _ unit: UInt16, _ value: String, _ text: String
  ) throws {
    let octets = octetsOf(value)
    let format = CharacteristicPresentationFormat(format: format, exponent: exponent, unit: unit)
    #expect(try format.text(of: octets.span) == text)
  }

  @Test func refusesOtherLengths() {
    for format in 0x01...0x18 as ClosedRange<UInt8> {
      let format = CharacteristicPresentationFormat(format: format, exponent: 0, unit: 0x2700)
      for count in 0...17 where count != format.valueByteCount {
        let value = [UInt8](repeating: 0, count: count)
        #expect(throws: WireError.self) { try format.text(of: value.span) }
      }
    }
  }

  @Test func takesAnAggregateApart() throws {
    let formats = [
      CharacteristicPresentationFormat(format: 0x04, exponent: 0, unit: 0x27AD),
      CharacteristicPresentationFormat(format: 0x0E, exponent: 0, unit: 0x2703),
    ]
    let (whole, longer, shorter) = (octetsOf("64ffff"), octetsOf("64ffff0708"), octetsOf("64ff"))
    #expect(try formats.texts(of: whole.span) == ["100 %", "-1 s"])
    #expect(try formats.texts(of: longer.span) == ["100 %", "-1 s", "0708"])
    #expect(throws: WireError(.att, offset: 1, .truncated(needed: 2, available: 1))) {
      try formats.texts(of: shorter.span)
    }
  }
}

import BLEWire
import TestKit
import Testing

@Suite struct AdvertisingDataTests {
  struct Structure: Equatable {
    var type: UInt8
    var value: [UInt8]
  }

  private func structures(_ octets: [UInt8]) -> (seen: [Structure], error: WireError?) {
    var seen: [Structure] = []
    do throws(WireError) {
      try AdvertisingData(octets.span).forEach { type, value in
        seen.append(Structure(type: type.rawValue, value: array(value)))
      }
      return (seen, nil)
    } catch {
      return (seen, error)
    }
  }

  /// Flags, a ring's name, a 16-bit service list, manufacturer data. Core 5.4 Supplement, Part A, 1.
  static let octets = octetsOf("02 01 06 09 09 5230325f33344146 03 03 0d18 04 ff ec00 01")

  @Test func readsEachStructure() {
    let (seen, error) = structures(Self.octets)
    #expect(error == nil)
    #expect(
      seen == [
        Structure(type: 0x01, value: [0x06]), Structure(type: 0x09, value: Array("R02_34AF".utf8)),
        Structure(type: 0x03, value: [0x0D, 0x18]), Structure(type: 0xFF, value: [0xEC, 0x00, 0x01]),
      ])
  }

  @Test func keepsTheGoodStructuresOfTornData() {
    let borders = [0, 3, 13, 17, 22]
    for count in 0..<Self.octets.count {
      let (seen, error) = structures(Array(Self.octets[..<count]))
      let whole = borders.count { $0 <= count } - 1
      #expect(seen.count == whole)
      if borders.contains(count) {
        #expect(error == nil)
      } else {
        let start = borders[whole]
        #expect(
          error
            == WireError(
              .advertisingData, offset: start,
              .lengthMismatch(claimed: Int(Self.octets[start]), available: count - start - 1)))
      }
    }
  }

  @Test func endsAtAZeroLength() {
    let (seen, error) = structures(octetsOf("02 01 06 00 00 00 ff"))
    #expect(seen == [Structure(type: 0x01, value: [0x06])])
    #expect(error == nil)
  }

  @Test func takesAnEmptyValueAndUnknownTypes() {
    let (seen, error) = structures(octetsOf("01 09 02 77 05"))
    #expect(seen == [Structure(type: 0x09, value: []), Structure(type: 0x77, value: [5])])
    #expect(error == nil)
  }

  @Test func knowsTheSizesOfUUIDs() {
    let lists = (0...0xFF as ClosedRange<UInt8>).compactMap {
      AdvertisingDataType(rawValue: $0).serviceUUIDByteCount
    }
    #expect(lists == [2, 2, 4, 4, 16, 16])
    #expect(AdvertisingDataType.serviceData16.serviceDataUUIDByteCount == 2)
    #expect(AdvertisingDataType.serviceData32.serviceDataUUIDByteCount == 4)
    #expect(AdvertisingDataType.serviceData128.serviceDataUUIDByteCount == 16)
    #expect(AdvertisingDataType.flags.serviceDataUUIDByteCount == nil)
  }
}

@Suite struct AdvertisingReportTests {
  struct Report: Equatable {
    var address: String
    var type: AddressType
    var rssi: Int8?
    var txPower: Int8?
    var bits: UInt16
    var data: [UInt8]
  }

  private func reports(_ octets: [UInt8]) -> (seen: [Report], error: WireError?) {
    var seen: [Report] = []
    do throws(WireError) {
      try AdvertisingReports(validating: octets.span).forEach { report in
        seen.append(
          Report(
            address: report.address.description, type: report.address.type, rssi: report.rssi,
            txPower: report.txPower, bits: report.properties.bits, data: array(report.data)))
      }
      return (seen, nil)
    } catch {
      return (seen, error)
    }
  }

  /// Two reports in one event: ADV_IND from a public address, SCAN_RSP from a random one, RSSI −49 and
  /// unknown. Core 5.4, Vol 4, Part E, 7.7.65.2.
  static let legacy = octetsOf(
    "02 02  00 00 665544332211 03 020106 cf  04 01 0605040302c1 00 7f")

  @Test func readsLegacyReports() {
    let (seen, error) = reports(Self.legacy)
    #expect(error == nil)
    #expect(
      seen == [
        Report(
          address: "11:22:33:44:55:66", type: .public, rssi: -49, txPower: nil, bits: 0x13, data: [2, 1, 6]),
        Report(address: "C1:02:03:04:05:06", type: .random, rssi: nil, txPower: nil, bits: 0x1B, data: []),
      ])
  }

  /// Core 5.4, Vol 4, Part E, 7.7.65.13, table of legacy PDU types.
  @Test(
    arguments: [
      (0, true, true, false, false), (1, true, false, true, false), (2, false, true, false, false),
      (3, false, false, false, false), (4, true, true, false, true), (9, false, false, false, false),
    ] as [(UInt8, Bool, Bool, Bool, Bool)])
  func translatesLegacyTypes(
    type: UInt8, isConnectable: Bool, isScannable: Bool, isDirected: Bool, isScanResponse: Bool
  ) throws {
    var octets = octetsOf("02 01 00 00 665544332211 00 cf")
    octets[2] = type
    let bits = try #require(reports(octets).seen.first).bits
    let properties = AdvertisingReport.Properties(bits: bits)
    #expect(properties.isConnectable == isConnectable)
    #expect(properties.isScannable == isScannable)
    #expect(properties.isDirected == isDirected)
    #expect(properties.isScanResponse == isScanResponse)
    #expect(properties.isLegacy)
  }

  /// A connectable extended advertisement on 1M and 2M, set 3, +4 dBm, −70 dBm, more data to come.
  static let extended = octetsOf(
    "0d 01 2100 01 0605040302c1 01 02 03 04 ba 0000 00 000000000000 03 020106")

  @Test func readsExtendedReports() throws {
    let (seen, error) = reports(Self.extended)
    #expect(error == nil)
    #expect(
      seen == [
        Report(
          address: "C1:02:03:04:05:06", type: .random, rssi: -70, txPower: 4, bits: 0x21, data: [2, 1, 6])
      ])
    let properties = AdvertisingReport.Properties(bits: 0x21)
    #expect(properties.isConnectable)
    #expect(!properties.isLegacy)
    #expect(properties.isIncomplete)
    #expect(!properties.isTruncated)
    #expect(AdvertisingReport.Properties(bits: 0x41).isTruncated)
  }

  @Test func refusesTruncations() {
    for (octets, first) in [(Self.legacy, 15), (Self.extended, Self.extended.count)] {
      for count in 0..<octets.count {
        let (seen, error) = reports(Array(octets[..<count]))
        #expect(seen.count == (count >= first ? 1 : 0))
        // A list that ends after a whole report is shorter than announced, which is accepted.
        if count == 2 || count == first { continue }
        #expect(error?.layer == .hciEvent)
      }
    }
  }

  @Test func refusesADataLengthThatLies() {
    var octets = Self.legacy
    octets[10] = 0xFF
    #expect(
      reports(octets).error
        == WireError(.hciEvent, offset: 10, .lengthMismatch(claimed: 255, available: octets.count - 12)))
    octets = Self.extended
    octets[25] = 4
    #expect(
      reports(octets).error == WireError(.hciEvent, offset: 25, .lengthMismatch(claimed: 4, available: 3)))
  }

  @Test func refusesOtherSubevents() {
    #expect(
      reports(octetsOf("01 00")).error == WireError(.hciEvent, offset: 0, .invalidValue(0x01)))
  }

  @Test func takesAnEventWithoutReports() {
    #expect(reports(octetsOf("02 00")).seen.isEmpty)
    #expect(reports(octetsOf("02 00")).error == nil)
  }
}

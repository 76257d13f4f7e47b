import BLEWire
import Testing

@Suite struct DeviceAddressTests {
  /// Core 5.4, Vol 3, Part C, 3.2.1.3: the most significant byte is printed first; on air it is the last.
  @Test func printsTheMostSignificantOctetFirst() throws {
    let address = try #require(DeviceAddress("30:35:47:33:DD:3f", type: .random))
    #expect(address.bits == 0x3035_4733_DD3F)
    #expect((0..<6).map { address.octet($0) } == [0x3F, 0xDD, 0x33, 0x47, 0x35, 0x30])
    #expect(address.description == "30:35:47:33:DD:3F")
    #expect(address.type == .random)
  }

  @Test(arguments: ["00:00:00:00:00:00", "FF:FF:FF:FF:FF:FF", "01:02:03:04:05:06", "C0:98:E5:00:00:0A"])
  func comesBackFromItsText(_ text: String) throws {
    let address = try #require(DeviceAddress(text))
    #expect(address.description == text)
    #expect(DeviceAddress(text.lowercased()) == address)
  }

  @Test(arguments: [
    "", ":", ":::::", "30:35:47:33:DD", "30:35:47:33:DD:3F:", ":30:35:47:33:DD:3F", "30:35:47:33:DD:3F:00",
    "30-35-47-33-DD-3F", "30354733DD3F", "3:35:47:33:DD:3F", "030:35:47:33:DD:3F", "G0:35:47:33:DD:3F",
    "+1:35:47:33:DD:3F", "-1:35:47:33:DD:3F", "1+:35:47:33:DD:3F", "0x:35:47:33:DD:3F",
    " 0:35:47:33:DD:3F", "30:35:47:33:DD:3F ", "٣٠:35:47:33:DD:3F", "３０:35:47:33:DD:3F",
  ])
  func refuses(_ text: String) { #expect(DeviceAddress(text) == nil) }

  @Test func keepsFortyEightBits() {
    let address = DeviceAddress(bits: .max, type: .public)
    #expect(address.bits == 0xFFFF_FFFF_FFFF)
    #expect(address == DeviceAddress(bits: 0xFFFF_FFFF_FFFF, type: .public))
  }

  /// The same number as a public and as a random address means two devices.
  @Test func isAnotherDeviceWithAnotherType() {
    let address = DeviceAddress(bits: 1, type: .public)
    #expect(address != address.with(type: .random))
    #expect(address.with(type: .random).with(type: .public) == address)
    #expect(Set([address, address.with(type: .random)]).count == 2)
  }

  /// Core 5.4, Vol 4, Part E, 7.7.65.2: Address_Type 0 is public, 1 random.
  @Test func countsTypesLikeTheControllers() {
    #expect(AddressType(rawValue: 0) == .public)
    #expect(AddressType(rawValue: 1) == .random)
    #expect(AddressType(rawValue: 2) == nil)
  }
}

@Suite struct BluetoothUUIDTests {
  /// Core 5.4, Vol 3, Part B, 2.5.1: base UUID 00000000-0000-1000-8000-00805F9B34FB.
  @Test(arguments: [
    ("180d", "0000180d-0000-1000-8000-00805f9b34fb"), ("0x2A37", "00002a37-0000-1000-8000-00805f9b34fb"),
    ("0000180D", "0000180d-0000-1000-8000-00805f9b34fb"), ("0000", "00000000-0000-1000-8000-00805f9b34fb"),
    ("12345678", "12345678-0000-1000-8000-00805f9b34fb"),
    ("6E40FFF0-B5A3-F393-E0A9-E50E24DCCA9E", "6e40fff0-b5a3-f393-e0a9-e50e24dcca9e"),
    ("00000000-0000-0000-0000-000000000000", "00000000-0000-0000-0000-000000000000"),
  ])
  func readsEachForm(_ text: String, _ full: String) throws {
    let uuid = try #require(BluetoothUUID(text))
    #expect(uuid.description == full)
    #expect(BluetoothUUID(full) == uuid)
  }

  @Test(arguments: [
    "", "0x", "1", "180", "180dd", "180g", "-180", "+180", "0x-180d", "0000180", "0000180d-0000-1000-8000",
    "0000180d00001000800000805f9b34fb", "0000180d-0000-1000-8000-00805f9b34f",
    "0000180d-0000-1000-8000-00805f9b34fbb", "0000180d-00001-000-8000-00805f9b34fb",
    "0000180d+0000-1000-8000-00805f9b34fb", "{0000180d-0000-1000-8000-00805f9b34fb}", "180d ", "۱۸۰d", "１８０d",
    "-000180d-0000-1000-8000-00805f9b34fb", "0x0000180d-0000-1000-8000-00805f9b34fb",
  ])
  func refuses(_ text: String) { #expect(BluetoothUUID(text) == nil) }

  @Test func isOneWhateverItsForm() throws {
    let short = BluetoothUUID(0x180D)
    let wide = try #require(BluetoothUUID("0000180d-0000-1000-8000-00805f9b34fb"))
    #expect(short == wide)
    #expect(short == BluetoothUUID(short32: 0x180D))
    #expect(Set([short, wide, BluetoothUUID(short32: 0x180D)]).count == 1)
    #expect(wide.short == 0x180D)
    #expect(wide.byteCount == 2)
  }

  @Test(arguments: [
    "0001180d-0000-1000-8000-00805f9b34fb", "0000180d-0001-1000-8000-00805f9b34fb",
    "0000180d-0000-1001-8000-00805f9b34fb", "0000180d-0000-1000-8000-00805f9b34fc",
    "0000180d-0000-1000-0000-00805f9b34fb",
  ])
  func hasNoShortFormOutsideTheBase(_ text: String) throws {
    let uuid = try #require(BluetoothUUID(text))
    #expect(uuid.short == nil)
    #expect(uuid.byteCount == 16)
    #expect(uuid != BluetoothUUID(0x180D))
  }

  /// The 128-bit characteristic of BlueZ's `small` database, in wire order.
  @Test func liesBackwardsOnAir() throws {
    let uuid = try #require(BluetoothUUID("0000b009-0000-0000-0123-456789abcdef"))
    #expect(
      (0..<16).map { uuid.octet($0) }
        == [0xEF, 0xCD, 0xAB, 0x89, 0x67, 0x45, 0x23, 0x01, 0, 0, 0, 0, 0x09, 0xB0, 0, 0])
  }
}

@Suite struct HandleTests {
  /// Core 5.4, Vol 3, Part F, 3.2.2: 0x0000 is reserved, 0xFFFF is the last.
  @Test func endsAtFFFF() {
    #expect(AttributeHandle.first.rawValue == 1)
    #expect(AttributeHandle(0xFFFE).next == .last)
    #expect(AttributeHandle.last.next == nil)
    #expect(AttributeHandle(0x00FF) < AttributeHandle(0x0100))
  }

  /// Core 5.4, Vol 4, Part E, 5.4.2: twelve bits; the flags above are not part of it.
  @Test func connectionHandlesHaveTwelveBits() {
    #expect(ConnectionHandle(0x2EFF).rawValue == 0x0EFF)
  }
}

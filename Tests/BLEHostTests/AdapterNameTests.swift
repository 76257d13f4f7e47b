import BLEHost
import BLELinux
import BLEWire
import Testing

/// Finding an adapter by its name or address.
@Suite struct AdapterNameTests {
  private static func adapter(_ index: UInt16, _ address: String, isUp: Bool = true) throws -> AdapterInfo {
    AdapterInfo(index: index, address: try #require(DeviceAddress(address)), isUp: isUp, bus: 1)
  }

  private func message(_ name: String, _ adapters: [AdapterInfo]) throws -> String {
    let name = try #require(AdapterName(name))
    do throws(HostError) {
      return try name.find(among: adapters).name
    } catch { return error.description }
  }

  @Test func namesAndAddresses() throws {
    let address = try #require(DeviceAddress("00:1A:7D:DA:71:13"))
    #expect(AdapterName("hci0") == .index(0) && AdapterName("hci12") == .index(12))
    #expect(AdapterName("00:1A:7D:DA:71:13") == .address(address))
    #expect(AdapterName("00:1a:7d:da:71:13")?.description == "00:1A:7D:DA:71:13")
    for text in [
      "", "hci", "hci-1", "hci+1", "hci65536", "usb", "0", "HCI0", "hci0 ", "00:1A:7D:DA:71",
      "00-1A-7D-DA-71-13", "00:1A:7D:DA:71:13:00", "001A7DDA7113", "00:1A:7D:DA:71:1G",
    ] {
      #expect(AdapterName(text) == nil, "\(text)")
    }
  }

  @Test func findsAnAdapterUpOrDown() throws {
    let present = [
      try Self.adapter(0, "00:1A:7D:DA:71:13"), try Self.adapter(3, "5C:F3:70:8B:12:34", isUp: false),
    ]
    #expect(try message("hci3", present) == "hci3")
    #expect(try message("00:1a:7d:da:71:13", present) == "hci0")
    #expect(try message("5C:F3:70:8B:12:34", present) == "hci3")
  }

  @Test func listsTheAdaptersWithTheirAddresses() throws {
    let present = [try Self.adapter(0, "00:1A:7D:DA:71:13"), try Self.adapter(3, "5C:F3:70:8B:12:34")]
    #expect(
      try message("00:1A:7D:DA:71:14", present)
        == "there is no adapter 00:1A:7D:DA:71:14; choose one of hci0 (00:1A:7D:DA:71:13), hci3 "
        + "(5C:F3:70:8B:12:34) with --adapter")
    #expect(try message("hci1", present).hasPrefix("there is no adapter hci1; choose one of hci0 (00:1A:"))
    #expect(try message("00:1A:7D:DA:71:14", []).hasPrefix("no Bluetooth adapter found"))
  }

  /// The kernel has no address of an adapter that was never up.
  @Test func saysThatAnAdapterHasNoAddressYet() throws {
    let present = [try Self.adapter(0, "00:1A:7D:DA:71:13"), try Self.adapter(1, "00:00:00:00:00:00")]
    for address in ["00:1A:7D:DA:71:14", "00:00:00:00:00:00"] {
      let text = try message(address, present)
      #expect(text.contains("hci1 (no address)") && text.contains("btmgmt --index 1 power on"), "\(text)")
    }
    #expect(try !message("hci2", present).contains("power on"))
  }

  @Test func refusesAnAddressThatTwoAdaptersHave() throws {
    let present = [try Self.adapter(0, "00:1A:7D:DA:71:13"), try Self.adapter(1, "00:1A:7D:DA:71:13")]
    #expect(
      try message("00:1A:7D:DA:71:13", present)
        == "hci0 and hci1 have the same address 00:1A:7D:DA:71:13; choose one by name, such as --adapter hci0"
    )
    #expect(try message("hci1", present) == "hci1")
  }
}

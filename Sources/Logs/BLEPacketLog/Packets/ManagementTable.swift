import BLEWire

/// Commands and events of the kernel's management interface with their parameters.
///
/// `doc/mgmt-api.txt` of BlueZ; names are from `btmon` 5.66. The returned fields of a command follow the
/// status in its Command Complete.
package enum ManagementTable {
  package static let commands = PacketLayout.table(commandText)
  package static let events = PacketLayout.table(eventText)

  private static let commandText = """
    0001 Read Management Version Information | | u8 Version, u16 Revision
    0002 Read Management Supported Commands | | size16 Commands, size16 Events, each Supported commands [\
      command Command], each Supported events [event Event]
    0003 Read Controller Index List | | times16 Controllers, controller Controller
    0004 Read Controller Information | | public Address, =version Version, company Manufacturer, \
      &settings Supported settings, &settings Current settings, class Class, name249 Name, \
      name11 Short name
    0005 Set Powered | =enable Powered | &settings Current settings
    0006 Set Discoverable | =discoverable Discoverable, sec Timeout | &settings Current settings
    0007 Set Connectable | =enable Connectable | &settings Current settings
    0008 Set Fast Connectable | =enable Fast Connectable | &settings Current settings
    0009 Set Bondable | =enable Bondable | &settings Current settings
    000a Set Link Security | =enable Link Security | &settings Current settings
    000b Set Secure Simple Pairing | =enable Secure Simple Pairing | &settings Current settings
    000c Set High Speed | =enable High Speed | &settings Current settings
    000d Set Low Energy | =enable Low Energy | &settings Current settings
    000e Set Device Class | x8 Major class, x8 Minor class | class Class
    000f Set Local Name | name249 Name, name11 Short name | name249 Name, name11 Short name
    0010 Add UUID | uuid UUID, x8 Service class | class Class
    0011 Remove UUID | uuid UUID | class Class
    0012 Load Link Keys | =enable Debug keys, times16 Keys, device Address, =linkkey Key type, \
      key16 Link key, u8 PIN length |
    0013 Load Long Term Keys | times16 Keys, device Address, =longtermkey Key type, x8 Central, \
      u8 Encryption size, bytes2 Diversifier, key8 Randomizer, key16 Key |
    0014 Disconnect | device Address | device Address
    0015 Get Connections | | times16 Connections, device Address
    0016 PIN Code Reply | device Address, u8 PIN length, key16 PIN code | device Address
    0017 PIN Code Negative Reply | device Address | device Address
    0018 Set IO Capability | =io Capability |
    0019 Pair Device | device Address, =io Capability | device Address
    001a Cancel Pair Device | device Address | device Address
    001b Unpair Device | device Address, =enable Disconnect | device Address
    001c User Confirmation Reply | device Address | device Address
    001d User Confirmation Negative Reply | device Address | device Address
    001e User Passkey Reply | device Address, passkey | device Address
    001f User Passkey Negative Reply | device Address | device Address
    0020 Read Local Out Of Band Data | | key16 Hash C from P-192, key16 Randomizer R with P-192, \
      key16 Hash C from P-256, key16 Randomizer R with P-256
    0021 Add Remote Out Of Band Data | device Address, key16 Hash C from P-192, \
      key16 Randomizer R with P-192, key16 Hash C from P-256, key16 Randomizer R with P-256 | \
      device Address
    0022 Remove Remote Out Of Band Data | device Address | device Address
    0023 Start Discovery | &discovery Address type | &discovery Address type
    0024 Stop Discovery | &discovery Address type | &discovery Address type
    0025 Confirm Name | device Address, =no Name known | device Address
    0026 Block Device | device Address | device Address
    0027 Unblock Device | device Address | device Address
    0028 Set Device ID | ==deviceid Device ID, x16 Vendor, x16 Product, x16 Version |
    0029 Set Advertising | =advertise Advertising | &settings Current settings
    002a Set BR/EDR | =enable BR/EDR | &settings Current settings
    002b Set Static Address | random Address | &settings Current settings
    002c Set Scan Parameters | n16 Interval, n16 Window |
    002d Set Secure Connections | =secure Secure Connections | &settings Current settings
    002e Set Debug Keys | =debugkeys Debug Keys | &settings Current settings
    002f Set Privacy | =private Privacy, key16 Key | &settings Current settings
    0030 Load Identity Resolving Keys | times16 Keys, device Address, key16 Key |
    0031 Get Connection Information | device Address | device Address, rssi RSSI, dbm TX power, \
      dbm TX power (max)
    0032 Get Clock Information | device Address | device Address, x32 Local clock, x32 Piconet clock, \
      x16 Accuracy
    0033 Add Device | device Address, =action Action | device Address
    0034 Remove Device | device Address | device Address
    0035 Load Connection Parameters | times16 Parameters, device Address, u16 Min connection interval, \
      u16 Max connection interval, n16 Connection latency, u16 Supervision timeout |
    0036 Read Unconfigured Controller Index List | | times16 Controllers, controller Controller
    0037 Read Controller Configuration Information | | company Manufacturer, &options Supported options, \
      &options Missing options
    0038 Set External Configuration | =enable Configuration | &options Missing options
    0039 Set Public Address | public Address | &options Missing options
    003a Start Service Discovery | &discovery Address type, rssi RSSI, times16 UUIDs, uuid UUID | \
      &discovery Address type
    003b Read Local Out Of Band Extended Data | &discovery Address type | &discovery Address type, \
      data16 Data length
    003c Read Extended Controller Index List | | times16 Controllers, controller Controller, =controller Type, \
      =bus Bus
    003d Read Advertising Features | | &advflags Flags, u8 Advertising data length, \
      u8 Scan response length, u8 Max instances, times Instances, u8 Instance
    003e Add Advertising | u8 Instance, &advflags Flags, u16 Duration, u16 Timeout, \
      size8 Advertising data length, size8 Scan response length, sizeddata Advertising data, \
      sizeddata Scan response | u8 Instance
    003f Remove Advertising | u8 Instance | u8 Instance
    0040 Get Advertising Size Information | u8 Instance, &advflags Flags | u8 Instance, &advflags Flags, \
      u8 Advertising data length, u8 Scan response length
    0041 Start Limited Discovery | &discovery Address type | &discovery Address type
    0042 Read Extended Controller Information | | public Address, =version Version, company Manufacturer, \
      &settings Supported settings, &settings Current settings, data16 Data length
    0043 Set Appearance | appearance Appearance |
    0044 Get PHY Configuration | | &configuredphys Supported PHYs, &configuredphys Configurable PHYs, \
      &configuredphys Selected PHYs
    0045 Set PHY Configuration | &configuredphys Selected PHYs |
    0046 Load Blocked Keys | times16 Keys, =blockedkey Key type, key16 Key |
    0047 Set Wideband Speech | =enable Wideband Speech | &settings Current settings
    0048 Read Controller Capabilities | | u16 Capabilities length, all Capabilities, size8 Length, \
      sized Capability
    0049 Read Experimental Features Information | | times16 Features, uuid UUID, &feature Flags
    004a Set Experimental Feature | uuid UUID, =enable Action | uuid UUID, &feature Flags
    004b Read Default System Configuration | | all Parameters, x16 Type, size8 Length, sized Value
    004c Set Default System Configuration | all Parameters, x16 Type, size8 Length, sized Value |
    004d Read Default Runtime Configuration | | all Parameters, x16 Type, size8 Length, sized Value
    004e Set Default Runtime Configuration | all Parameters, x16 Type, size8 Length, sized Value |
    004f Get Device Flags | device Address | device Address, &deviceflags Supported Flags, \
      &deviceflags Current Flags
    0050 Set Device Flags | device Address, &deviceflags Current Flags | device Address
    0051 Read Advertisement Monitor Features | | &monitors Supported Features, &monitors Enabled Features, \
      u16 Max number of handles, u8 Max number of patterns, times16 Number of handles, u16 Handle
    0052 Add Advertisement Patterns Monitor | times Number of patterns, u8 AD type, u8 Offset, u8 Length, \
      hex31 Value | u16 Handle
    0053 Remove Advertisement Monitor | u16 Handle | u16 Handle
    0054 Add Extended Advertising Parameters | u8 Instance, &advflags Flags, u16 Duration, u16 Timeout, \
      slot32 Min advertising interval, slot32 Max advertising interval, dbm TX power | u8 Instance, \
      dbm TX power, u8 Available adv data len, u8 Available scan rsp data len
    0055 Add Extended Advertising Data | u8 Instance, size8 Advertising data length, \
      size8 Scan response length, sizeddata Advertising data, sizeddata Scan response | u8 Instance
    0056 Add Advertisement Patterns Monitor With RSSI Threshold | i8 High threshold, u16 High timeout, \
      i8 Low threshold, u16 Low timeout, u8 Sampling, times Number of patterns, u8 AD type, u8 Offset, \
      u8 Length, hex31 Value | u16 Handle
    0057 Set Mesh Receiver | u8 Enable, u16 Window, u16 Period, times Num AD Types, u8 AD Type |
    0058 Read Mesh Features | | u16 Index, u8 Max Handles, times Used Handles, u8 Used Handle
    0059 Mesh Send | device Address, x64 Instant, u16 Delay, u8 Count, data Data length | u8 Handle
    005a Mesh Send Cancel | u8 Handle |
    """

  private static let eventText = """
    0001 Command Complete | command Command, =mgmtstatus Status
    0002 Command Status | command Command, =mgmtstatus Status
    0003 Controller Error | x8 Error
    0004 Index Added |
    0005 Index Removed |
    0006 New Settings | &settings Current settings
    0007 Class Of Device Changed | class Class
    0008 Local Name Changed | name249 Name, name11 Short name
    0009 New Link Key | =no Store hint, device Address, =linkkey Key type, key16 Link key, u8 PIN length
    000a New Long Term Key | =no Store hint, device Address, =longtermkey Key type, x8 Central, \
      u8 Encryption size, bytes2 Diversifier, key8 Randomizer, key16 Key
    000b Device Connected | device Address, &found Flags, data16 Data length
    000c Device Disconnected | device Address, =disconnected Reason
    000d Connect Failed | device Address, =mgmtstatus Status
    000e PIN Code Request | device Address, x8 Secure PIN
    000f User Confirmation Request | device Address, x8 Confirm hint, passkey Value
    0010 User Passkey Request | device Address
    0011 Authentication Failed | device Address, =mgmtstatus Status
    0012 Device Found | device Address, rssi RSSI, &found Flags, data16 Data length
    0013 Discovering | &discovery Address type, =enable Discovery
    0014 Device Blocked | device Address
    0015 Device Unblocked | device Address
    0016 Device Unpaired | device Address
    0017 Passkey Notify | device Address, passkey, u8 Entered
    0018 New Identity Resolving Key | =no Store hint, random Random address, device Address, key16 Key
    0019 New Signature Resolving Key | =no Store hint, device Address, =signaturekey Key type, key16 Key
    001a Device Added | device Address, =action Action
    001b Device Removed | device Address
    001c New Connection Parameter | =no Store hint, device Address, u16 Min connection interval, \
      u16 Max connection interval, n16 Connection latency, u16 Supervision timeout
    001d Unconfigured Index Added |
    001e Unconfigured Index Removed |
    001f New Configuration Options | &options Missing options
    0020 Extended Index Added | =controller Type, =bus Bus
    0021 Extended Index Removed | =controller Type, =bus Bus
    0022 Local Out Of Band Extended Data Updated | &discovery Address type, data16 Data length
    0023 Advertising Added | u8 Instance
    0024 Advertising Removed | u8 Instance
    0025 Extended Controller Information Changed | data16 Data length
    0026 PHY Configuration Changed | &configuredphys Selected PHYs
    0027 Experimental Feature Changed | uuid UUID, &feature Flags
    0028 Default System Configuration Changed | all Parameters, x16 Type, size8 Length, sized Value
    0029 Default Runtime Configuration Changed | all Parameters, x16 Type, size8 Length, sized Value
    002a Device Flags Changed | device Address, &deviceflags Supported Flags, &deviceflags Current Flags
    002b Advertisement Monitor Added | u16 Handle
    002c Advertisement Monitor Removed | u16 Handle
    002d Controller Suspended | =suspend Suspend state
    002e Controller Resumed | =resume Wake reason, device Address
    002f ADV Monitor Device Found | u16 Handle, device Address, rssi RSSI, &found Flags, data16 Data length
    0030 ADV Monitor Device Lost | u16 Handle, device Address
    0031 Mesh Device Found | device Address, rssi RSSI, x64 Instant, &found Flags, data16 Data length
    0032 Mesh Packet Complete | u8 Handle
    """
}

extension ManagementTable {
  /// Returns the fields of an event; `nil` if they are unknown. In a Command Complete, the fields that the
  /// command returns follow the status.
  package static func fields(ofEvent number: UInt16, _ parameters: Span<UInt8>) -> [PacketField]? {
    let fields = events[number]?.fields
    // A failed command returns only a status.
    guard number == commandComplete, parameters.count > 3 else { return fields }
    return (fields ?? []) + (commands[parameters.u16(at: 0)]?.returned ?? [])
  }

  private static let commandComplete: UInt16 = 0x0001
}

/// Records of the kernel's monitor other than packets and messages of the management interface, with their
/// fields. `doc/btsnoop-protocol.rst` of BlueZ.
enum MonitorTable {
  static let layouts = PacketLayout.table(
    """
    00 New Index | u8 Type, =bus Bus, public Address, bytes8 Name
    01 Delete Index |
    08 Open Index |
    09 Close Index |
    0a Index Info | public Address, company Manufacturer
    0e Open | x32 Cookie, u16 Channel, u8 Version, u16 Revision, x32 Flags, u8 Program length, text Program
    0f Close | x32 Cookie
    """)
}

/// Commands and events of the kernel's management interface. `doc/mgmt-api.txt`, and the names in
/// `monitor/packet.c` of BlueZ 5.66.
enum ManagementNames {
  static let commands = PacketLayout.names(
    """
    0001 Read Management Version Information
    0002 Read Management Supported Commands
    0003 Read Controller Index List
    0004 Read Controller Information
    0005 Set Powered
    0006 Set Discoverable
    0007 Set Connectable
    0008 Set Fast Connectable
    0009 Set Bondable
    000a Set Link Security
    000b Set Secure Simple Pairing
    000c Set High Speed
    000d Set Low Energy
    000e Set Device Class
    000f Set Local Name
    0010 Add UUID
    0011 Remove UUID
    0012 Load Link Keys
    0013 Load Long Term Keys
    0014 Disconnect
    0015 Get Connections
    0016 PIN Code Reply
    0017 PIN Code Negative Reply
    0018 Set IO Capability
    0019 Pair Device
    001a Cancel Pair Device
    001b Unpair Device
    001c User Confirmation Reply
    001d User Confirmation Negative Reply
    001e User Passkey Reply
    001f User Passkey Negative Reply
    0020 Read Local Out Of Band Data
    0021 Add Remote Out Of Band Data
    0022 Remove Remote Out Of Band Data
    0023 Start Discovery
    0024 Stop Discovery
    0025 Confirm Name
    0026 Block Device
    0027 Unblock Device
    0028 Set Device ID
    0029 Set Advertising
    002a Set BR/EDR
    002b Set Static Address
    002c Set Scan Parameters
    002d Set Secure Connections
    002e Set Debug Keys
    002f Set Privacy
    0030 Load Identity Resolving Keys
    0031 Get Connection Information
    0032 Get Clock Information
    0033 Add Device
    0034 Remove Device
    0035 Load Connection Parameters
    0036 Read Unconfigured Controller Index List
    0037 Read Controller Configuration Information
    0038 Set External Configuration
    0039 Set Public Address
    003a Start Service Discovery
    003b Read Local Out Of Band Extended Data
    003c Read Extended Controller Index List
    003d Read Advertising Features
    003e Add Advertising
    003f Remove Advertising
    0040 Get Advertising Size Information
    0041 Start Limited Discovery
    0042 Read Extended Controller Information
    0043 Set Appearance
    0044 Get PHY Configuration
    0045 Set PHY Configuration
    0046 Load Blocked Keys
    0047 Set Wideband Speech
    0048 Read Controller Capabilities
    0049 Read Experimental Features Information
    004a Set Experimental Feature
    004b Read Default System Configuration
    004c Set Default System Configuration
    004d Read Default Runtime Configuration
    004e Set Default Runtime Configuration
    004f Get Device Flags
    0050 Set Device Flags
    0051 Read Advertisement Monitor Features
    0052 Add Advertisement Patterns Monitor
    0053 Remove Advertisement Monitor
    0054 Add Extended Advertising Parameters
    0055 Add Extended Advertising Data
    0056 Add Advertisement Patterns Monitor With RSSI Threshold
    0057 Set Mesh Receiver
    0058 Read Mesh Features
    0059 Mesh Send
    """)

  static let events = PacketLayout.names(
    """
    0001 Command Complete
    0002 Command Status
    0003 Controller Error
    0004 Index Added
    0005 Index Removed
    0006 New Settings
    0007 Class Of Device Changed
    0008 Local Name Changed
    0009 New Link Key
    000a New Long Term Key
    000b Device Connected
    000c Device Disconnected
    000d Connect Failed
    000e PIN Code Request
    000f User Confirmation Request
    0010 User Passkey Request
    0011 Authentication Failed
    0012 Device Found
    0013 Discovering
    0014 Device Blocked
    0015 Device Unblocked
    0016 Device Unpaired
    0017 Passkey Notify
    0018 New Identity Resolving Key
    0019 New Signature Resolving Key
    001a Device Added
    001b Device Removed
    001c New Connection Parameter
    001d Unconfigured Index Added
    001e Unconfigured Index Removed
    001f New Configuration Options
    0020 Extended Index Added
    0021 Extended Index Removed
    0022 Local Out Of Band Extended Data Updated
    0023 Advertising Added
    0024 Advertising Removed
    0025 Extended Controller Information Changed
    0026 PHY Configuration Changed
    0027 Experimental Feature Changed
    002a Device Flags Changed
    002b Advertisement Monitor Added
    002c Advertisement Monitor Removed
    002d Controller Suspended
    002e Controller Resumed
    002f ADV Monitor Device Found
    0030 ADV Monitor Device Lost
    0031 Mesh Device Found
    0032 Mesh Packet Complete
    """)
}

import BLEPacketLog
package import BLEWire
import ColmiRing

/// Names of the SIG's 16-bit UUIDs and of the ring's UUIDs.
///
/// Bluetooth Assigned Numbers, 3.4 to 3.8. Names are from `btmon` 5.66.
package enum UUIDNames {
  /// Names by 16-bit UUID.
  static let assigned = PacketLayout.names(text)

  /// Returns the name of a UUID.
  ///
  /// - Returns: `nil` for a UUID without a name.
  package static func name(of uuid: BluetoothUUID) -> String? {
    if let short = uuid.short { return assigned[short] }
    return vendor.first { $0.uuid == uuid }?.name
  }

  private static let vendor: [(uuid: BluetoothUUID, name: String)] = [
    (RingUUID.commandService, "Ring commands"), (RingUUID.commandWrite, "Ring command"),
    (RingUUID.commandNotify, "Ring reply"), (RingUUID.bigDataService, "Ring big data"),
    (RingUUID.bigDataWrite, "Ring big data request"), (RingUUID.bigDataNotify, "Ring big data reply"),
  ]

  private static let text = """
    110a Audio Source
    110b Audio Sink
    110c A/V Remote Control Target
    110e A/V Remote Control
    1112 Headset AG
    111e Handsfree
    111f Handsfree Audio Gateway
    1200 PnP Information
    1800 Generic Access Profile
    1801 Generic Attribute Profile
    1802 Immediate Alert
    1803 Link Loss
    1804 Tx Power
    1805 Current Time Service
    1806 Reference Time Update Service
    1807 Next DST Change Service
    1808 Glucose
    1809 Health Thermometer
    180a Device Information
    180d Heart Rate
    180e Phone Alert Status Service
    180f Battery Service
    1810 Blood Pressure
    1811 Alert Notification Service
    1812 Human Interface Device
    1813 Scan Parameters
    1814 Running Speed and Cadence
    1815 Automation IO
    1816 Cycling Speed and Cadence
    1818 Cycling Power
    1819 Location and Navigation
    181a Environmental Sensing
    181b Body Composition
    181c User Data
    181d Weight Scale
    181e Bond Management
    181f Continuous Glucose Monitoring
    1820 Internet Protocol Support
    1821 Indoor Positioning
    1822 Pulse Oximeter
    1823 HTTP Proxy
    1824 Transport Discovery
    1825 Object Transfer
    1826 Fitness Machine
    1827 Mesh Provisioning
    1828 Mesh Proxy
    1843 Audio Input Control
    1844 Volume Control
    1845 Volume Offset Control
    1846 Coordinated Set Identification
    1848 Media Control
    1849 Generic Media Control
    184b Telephony Bearer
    184c Generic Telephony Bearer
    184d Microphone Control
    184e Audio Stream Control
    184f Broadcast Audio Scan
    1850 Published Audio Capabilities
    1851 Basic Audio Announcement
    1852 Broadcast Audio Announcement
    2800 Primary Service
    2801 Secondary Service
    2802 Include
    2803 Characteristic
    2900 Characteristic Extended Properties
    2901 Characteristic User Description
    2902 Client Characteristic Configuration
    2903 Server Characteristic Configuration
    2904 Characteristic Format
    2905 Characteristic Aggregate Formate
    2906 Valid Range
    2907 External Report Reference
    2908 Report Reference
    2909 Number of Digitals
    290a Value Trigger Setting
    290b Environmental Sensing Configuration
    290c Environmental Sensing Measurement
    290d Environmental Sensing Trigger Setting
    290e Time Trigger Setting
    2a00 Device Name
    2a01 Appearance
    2a02 Peripheral Privacy Flag
    2a03 Reconnection Address
    2a04 Peripheral Preferred Connection Parameters
    2a05 Service Changed
    2a06 Alert Level
    2a07 Tx Power Level
    2a08 Date Time
    2a09 Day of Week
    2a0a Day Date Time
    2a0c Exact Time 256
    2a0d DST Offset
    2a0e Time Zone
    2a0f Local Time Information
    2a11 Time with DST
    2a12 Time Accuracy
    2a13 Time Source
    2a14 Reference Time Information
    2a16 Time Update Control Point
    2a17 Time Update State
    2a18 Glucose Measurement
    2a19 Battery Level
    2a1c Temperature Measurement
    2a1d Temperature Type
    2a1e Intermediate Temperature
    2a21 Measurement Interval
    2a22 Boot Keyboard Input Report
    2a23 System ID
    2a24 Model Number String
    2a25 Serial Number String
    2a26 Firmware Revision String
    2a27 Hardware Revision String
    2a28 Software Revision String
    2a29 Manufacturer Name String
    2a2a IEEE 11073-20601 Regulatory Cert. Data List
    2a2b Current Time
    2a2c Magnetic Declination
    2a31 Scan Refresh
    2a32 Boot Keyboard Output Report
    2a33 Boot Mouse Input Report
    2a34 Glucose Measurement Context
    2a35 Blood Pressure Measurement
    2a36 Intermediate Cuff Pressure
    2a37 Heart Rate Measurement
    2a38 Body Sensor Location
    2a39 Heart Rate Control Point
    2a3f Alert Status
    2a40 Ringer Control Point
    2a41 Ringer Setting
    2a42 Alert Category ID Bit Mask
    2a43 Alert Category ID
    2a44 Alert Notification Control Point
    2a45 Unread Alert Status
    2a46 New Alert
    2a47 Supported New Alert Category
    2a48 Supported Unread Alert Category
    2a49 Blood Pressure Feature
    2a4a HID Information
    2a4b Report Map
    2a4c HID Control Point
    2a4d Report
    2a4e Protocol Mode
    2a4f Scan Interval Window
    2a50 PnP ID
    2a51 Glucose Feature
    2a52 Record Access Control Point
    2a53 RSC Measurement
    2a54 RSC Feature
    2a55 SC Control Point
    2a56 Digital
    2a58 Analog
    2a5a Aggregate
    2a5b CSC Measurement
    2a5c CSC Feature
    2a5d Sensor Location
    2a63 Cycling Power Measurement
    2a64 Cycling Power Vector
    2a65 Cycling Power Feature
    2a66 Cycling Power Control Point
    2a67 Location and Speed
    2a68 Navigation
    2a69 Position Quality
    2a6a LN Feature
    2a6b LN Control Point
    2a6c Elevation
    2a6d Pressure
    2a6e Temperature
    2a6f Humidity
    2a70 True Wind Speed
    2a71 True Wind Direction
    2a72 Apparent Wind Speed
    2a73 Apparent Wind Direction
    2a74 Gust Factor
    2a75 Pollen Concentration
    2a76 UV Index
    2a77 Irradiance
    2a78 Rainfall
    2a79 Wind Chill
    2a7a Heat Index
    2a7b Dew Point
    2a7c Trend
    2a7d Descriptor Value Changed
    2a7e Aerobic Heart Rate Lower Limit
    2a7f Aerobic Threshold
    2a80 Age
    2a81 Anaerobic Heart Rate Lower Limit
    2a82 Anaerobic Heart Rate Upper Limit
    2a83 Anaerobic Threshold
    2a84 Aerobic Heart Rate Upper Limit
    2a85 Date of Birth
    2a86 Date of Threshold Assessment
    2a87 Email Address
    2a88 Fat Burn Heart Rate Lower Limit
    2a89 Fat Burn Heart Rate Upper Limit
    2a8a First Name
    2a8b Five Zone Heart Rate Limits
    2a8c Gender
    2a8d Heart Rate Max
    2a8e Height
    2a8f Hip Circumference
    2a90 Last Name
    2a91 Maximum Recommended Heart Rate
    2a92 Resting Heart Rate
    2a93 Sport Type for Aerobic/Anaerobic Thresholds
    2a94 Three Zone Heart Rate Limits
    2a95 Two Zone Heart Rate Limit
    2a96 VO2 Max
    2a97 Waist Circumference
    2a98 Weight
    2a99 Database Change Increment
    2a9a User Index
    2a9b Body Composition Feature
    2a9c Body Composition Measurement
    2a9d Weight Measurement
    2a9e Weight Scale Feature
    2a9f User Control Point
    2aa0 Magnetic Flux Density - 2D
    2aa1 Magnetic Flux Density - 3D
    2aa2 Language
    2aa3 Barometric Pressure Trend
    2aa4 Bond Management Control Point
    2aa5 Bond Management Feature
    2aa6 Central Address Resolution
    2aa7 CGM Measurement
    2aa8 CGM Feature
    2aa9 CGM Status
    2aaa CGM Session Start Time
    2aab CGM Session Run Time
    2aac CGM Specific Ops Control Point
    2aad Indoor Positioning Configuration
    2aae Latitude
    2aaf Longitude
    2ab0 Local North Coordinate
    2ab1 Local East Coordinate
    2ab2 Floor Number
    2ab3 Altitude
    2ab4 Uncertainty
    2ab5 Location Name
    2ab6 URI
    2ab7 HTTP Headers
    2ab8 HTTP Status Code
    2ab9 HTTP Entity Body
    2aba HTTP Control Point
    2abb HTTPS Security
    2abc TDS Control Point
    2abd OTS Feature
    2abe Object Name
    2abf Object Type
    2ac0 Object Size
    2ac1 Object First-Created
    2ac2 Object Last-Modified
    2ac3 Object ID
    2ac4 Object Properties
    2ac5 Object Action Control Point
    2ac6 Object List Control Point
    2ac7 Object List Filter
    2ac8 Object Changed
    2ac9 Resolvable Private Address Only
    2acc Fitness Machine Feature
    2acd Treadmill Data
    2ace Cross Trainer Data
    2acf Step Climber Data
    2ad0 Stair Climber Data
    2ad1 Rower Data
    2ad2 Indoor Bike Data
    2ad3 Training Status
    2ad4 Supported Speed Range
    2ad5 Supported Inclination Range
    2ad6 Supported Resistance Level Range
    2ad7 Supported Heart Rate Range
    2ad8 Supported Power Range
    2ad9 Fitness Machine Control Point
    2ada Fitness Machine Status
    2adb Mesh Provisioning Data In
    2adc Mesh Provisioning Data Out
    2add Mesh Proxy Data In
    2ade Mesh Proxy Data Out
    2b29 Client Supported Features
    2b2a Database Hash
    2b3a Server Supported Features
    2b77 Audio Input State
    2b78 Gain Settings Attribute
    2b79 Audio Input Type
    2b7a Audio Input Status
    2b7b Audio Input Control Point
    2b7c Audio Input Description
    2b7d Volume State
    2b7e Volume Control Point
    2b7f Volume Flags
    2b80 Offset State
    2b81 Audio Location
    2b82 Volume Offset Control Point
    2b83 Audio Output Description
    2b84 Set Identity Resolving Key
    2b93 Media Player Name
    2b94 Media Player Icon Object ID
    2b95 Media Player Icon URL
    2b96 Track Changed
    2b97 Track Title
    2b98 Track Duration
    2b99 Track Position
    2b9a Playback Speed
    2b9b Seeking Speed
    2b9c Current Track Segments Object ID
    2b9d Current Track Object ID
    2b9e Next Track Object ID
    2b9f Parent Group Object ID
    2ba0 Current Group Object ID
    2ba1 Playing Order
    2ba2 Playing Orders Supported
    2ba3 Media State
    2ba4 Media Control Point
    2ba5 Media Control Point Opcodes Supported
    2ba6 Search Results Object ID
    2ba7 Search Control Point
    2ba9 Media Player Icon Object Type
    2baa Track Segments Object Type
    2bab Track Object Type
    2bac Group Object Type
    2bb3 Bearer Provider Name
    2bb4 Bearer UCI
    2bb5 Bearer Technology
    2bb6 Bearer URI Schemes Supported List
    2bb7 Bearer Signal Strength
    2bb8 Bearer Signal Strength Reporting Interval
    2bb9 Bearer List Current Calls
    2bba Content Control ID
    2bbb Status Flags
    2bbc Incoming Call Target Bearer URI
    2bbd Call State
    2bbe Call Control Point
    2bbf Call Control Point Optional Opcodes
    2bc0 Termination Reason
    2bc1 Incoming Call
    2bc2 Call Friendly Name
    2bc3 Mute
    2bc4 Sink ASE
    2bc5 Source ASE
    2bc6 ASE Control Point
    2bc7 Broadcast Audio Scan Control Point
    2bc8 Broadcast Receive State
    2bc9 Sink PAC
    2bca Sink Audio Locations
    2bcb Source PAC
    2bcc Source Audio Locations
    2bcd Available Audio Contexts
    2bce Supported Audio Contexts
    fe9f Google
    fee7 Tencent Holdings Limited.
    feed Tile, Inc.
    """
}

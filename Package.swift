// swift-tools-version: 6.2
import PackageDescription

let languageSettings: [SwiftSetting] = [
  .enableExperimentalFeature("Lifetimes"),
  .enableUpcomingFeature("ExistentialAny"),
  .enableUpcomingFeature("InternalImportsByDefault"),
  .enableUpcomingFeature("MemberImportVisibility"),
  .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
  .treatAllWarnings(as: .error),
]
let swiftSettings = languageSettings + [.strictMemorySafety()]

/// A library target of ours.
func library(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
  .target(name: name, dependencies: dependencies, swiftSettings: swiftSettings)
}

/// Commands of the program.
func commands(
  _ name: String, _ dependencies: [Target.Dependency], _ packages: [Target.Dependency] = []
) -> Target {
  .target(
    name: name,
    dependencies: dependencies + [.product(name: "ArgumentParser", package: "swift-argument-parser")]
      + packages,
    swiftSettings: swiftSettings)
}

func tests(
  _ name: String, _ dependencies: [Target.Dependency],
  exclude: [String] = [], settings: [SwiftSetting] = []
) -> Target {
  .testTarget(
    name: name, dependencies: dependencies, exclude: exclude,
    swiftSettings: languageSettings + settings)
}

// `Tools/package wheel`: not each Linux has libzstd.
let zstd = Context.environment["RINGTAP_STATIC_ZSTD"] == nil ? "zstd" : ":libzstd.a"

/// The targets of a wing: a folder of `Sources`, whose README says what is in it. Imports go down the list of wings only, which
/// `Tools/tidy` checks.
func wing(_ name: String, _ targets: [Target]) -> [Target] {
  for target in targets { target.path = "Sources/\(name)/\(target.name)" }
  return targets
}

let targets: [[Target]] = [
  wing(
    "C",
    [
      .target(name: "CBluetoothLinux"),
      .target(
        name: "CCompression", linkerSettings: [.linkedLibrary("z"), .linkedLibrary(zstd)]),
      // Opens the library at run time.
      .target(name: "CCurl"),
      // The archive, not the shared library: few machines have that.
      .target(name: "CEDF", linkerSettings: [.linkedLibrary(":libedf.a")]),
      // Opens the library at run time.
      .target(name: "CLabStreaming"),
      // Opens the library at run time.
      .target(name: "CLibcrypto"),
      .target(name: "CMallocCounter"),
      // Opens the library at run time; only its headers are needed here.
      .target(name: "CMosquitto"),
      // `#embed`: Swift's own way makes a literal of each octet.
      .target(
        name: "CReportPage",
        exclude: [
          "charts.js", "data.js", "dygraph.LICENSE", "dygraph.min.css", "dygraph.min.js", "page.css",
          "page.js",
        ]),
    ]),
  wing(
    "Stack",
    [
      library("BLECore", []),
      library("BLEWire", ["BLECore"]),
      library("BLEStack", ["BLECore", "BLEWire"]),
      library("BLESecurity", ["CLibcrypto", "BLEWire", "BLEStack"]),
      library("BLELinux", ["CBluetoothLinux", "BLECore"]),
      library("BLEErrorGuide", ["BLEWire", "BLEStack", "BLELinux"]),
      library("BLEHost", ["BLECore", "BLEWire", "BLEStack", "BLELinux", "BLEErrorGuide"]),
      library("BLEPeripheral", ["BLECore", "BLEWire", "BLEStack", "BLELinux", "BLEHost"]),
    ]),
  wing(
    "Sensors",
    [
      library("JSONText", ["BLECore"]),
      library("Physiology", ["BLECore"]),
      library("BLESensors", ["BLECore", "BLEWire"]),
      library("ColmiRing", ["BLECore", "JSONText", "Physiology", "BLEWire"]),
      library(
        "SensorSessions",
        ["BLECore", "JSONText", "BLEWire", "BLEStack", "BLELinux", "BLESensors", "ColmiRing", "BLEHost"]),
    ]),
  wing(
    "Logs",
    [
      library("CompressedFiles", ["CCompression", "BLELinux"]),
      library("BLEPacketLog", ["BLECore", "BLEWire"]),
      library("BLEAirLog", ["BLECore", "BLEWire", "BLEStack", "BLEPacketLog"]),
      library(
        "BLEDissector",
        ["BLECore", "JSONText", "BLEWire", "BLEStack", "BLESensors", "ColmiRing", "BLEPacketLog"]),
      library(
        "PacketStatistics",
        ["BLECore", "JSONText", "BLEWire", "BLEStack", "BLEPacketLog", "BLEAirLog", "BLEDissector"]),
      library(
        "BLEReplay",
        [
          "BLECore", "BLEWire", "BLEStack", "BLELinux", "CompressedFiles", "BLEAirLog", "BLEPacketLog",
          "BLEDissector",
          "BLEHost",
        ]),
    ]),
  wing(
    "Captures",
    [
      library(
        "Recording",
        [
          "CBluetoothLinux", "BLECore", "JSONText", "Physiology", "BLEWire", "BLEStack", "BLELinux",
          "BLESensors", "ColmiRing", "BLEPacketLog", "BLEHost", "SensorSessions",
        ]),
      library(
        "CaptureTables",
        [
          "CEDF", "BLECore", "JSONText", "Physiology", "BLEWire", "BLELinux", "CompressedFiles", "ColmiRing",
          "SensorSessions", "Recording",
        ]),
      library(
        "CaptureTools",
        [
          "CaptureTables", "CReportPage", "BLECore", "JSONText", "Physiology", "BLEWire", "BLEStack",
          "BLELinux",
          "CompressedFiles",
          "BLESensors", "ColmiRing", "BLEAirLog", "BLEPacketLog", "BLEDissector", "PacketStatistics",
          "BLEHost",
          "BLEReplay",
          "SensorSessions", "Recording",
        ]),
    ]),
  wing(
    "Outlets",
    [
      library(
        "LiveView",
        [
          "BLECore", "JSONText", "Physiology", "BLEWire", "BLEStack", "BLELinux", "BLESensors", "ColmiRing",
          "BLEHost",
          "SensorSessions", "Recording",
        ]),
      library(
        "SampleStream", ["BLECore", "JSONText", "BLELinux", "ColmiRing", "SensorSessions", "Recording"]),
      library(
        "LabStreaming",
        ["CLabStreaming", "BLECore", "JSONText", "BLELinux", "SensorSessions", "Recording", "SampleStream"]),
      library(
        "InfluxWriter",
        [
          "CCurl", "BLECore", "JSONText", "BLELinux", "SensorSessions", "Recording", "CaptureTables",
          "SampleStream",
        ]),
      library(
        "Fleet",
        ["CMosquitto", "BLECore", "JSONText", "BLEWire", "BLELinux", "BLEErrorGuide", "BLEHost", "Recording"]),
      library(
        "HomeAssistant",
        [
          "BLECore", "JSONText", "Physiology", "BLEWire", "BLELinux", "BLESensors", "ColmiRing",
          "SensorSessions", "Recording", "Fleet", "LiveView",
        ]),
      library(
        "Relay",
        [
          "BLECore", "Physiology", "BLEWire", "BLEStack", "BLELinux", "BLESensors", "ColmiRing",
          "PacketStatistics",
          "BLEHost", "BLEPeripheral", "SensorSessions", "Recording",
        ]),
    ]),
  wing(
    "Emulation",
    [
      library(
        "BLEEmulation",
        ["BLECore", "JSONText", "BLEWire", "BLEStack", "BLELinux"]),
      library(
        "EmulatedSensors",
        [
          "BLECore", "Physiology", "BLEWire", "BLEStack", "BLELinux", "BLESensors", "ColmiRing",
          "BLEEmulation",
        ]),
    ]),
  wing(
    "Program",
    [
      library(
        "RingTap",
        [
          "BLECore", "JSONText", "Physiology", "BLEWire", "BLEStack", "BLELinux", "CompressedFiles",
          "BLESensors",
          "ColmiRing", "BLEAirLog", "BLEPacketLog", "BLEDissector", "BLEHost", "BLEPeripheral", "BLEReplay",
          "BLEEmulation", "EmulatedSensors", "SensorSessions", "Recording",
        ]),
      library("Doctor", ["BLECore", "BLEWire", "BLELinux", "BLEErrorGuide", "BLEHost"]),
      library(
        "Daemon",
        [
          "CBluetoothLinux", "BLECore", "JSONText", "BLEWire", "BLELinux", "BLESensors", "BLEHost",
          "SensorSessions", "Recording", "CaptureTables", "CaptureTools", "Fleet", "LiveView",
          "HomeAssistant",
        ]),
      commands(
        "CommandKit",
        [
          "BLECore", "JSONText", "BLEWire", "BLEStack", "BLESecurity", "BLELinux", "BLEErrorGuide",
          "CompressedFiles", "BLESensors", "BLEAirLog", "BLEPacketLog", "BLEHost", "BLEReplay",
          "BLEEmulation",
          "EmulatedSensors", "SensorSessions", "Recording", "CaptureTables", "CaptureTools", "Fleet",
          "LiveView", "SampleStream", "InfluxWriter", "HomeAssistant", "RingTap",
        ]),
      commands(
        "BenchCommands",
        [
          "CMallocCounter", "BLECore", "JSONText", "BLEWire", "BLEStack", "BLELinux", "ColmiRing",
          "PacketStatistics", "BLEHost", "BLEEmulation", "EmulatedSensors", "SensorSessions", "Recording",
          "CommandKit",
        ], [.product(name: "Histogram", package: "hdrhistogram-swift")]),
      commands(
        "LogCommands",
        [
          "BLECore", "JSONText", "BLEWire", "BLELinux", "CompressedFiles", "BLEAirLog", "BLEPacketLog",
          "BLEDissector",
          "PacketStatistics", "BLEHost", "BLEReplay", "Recording", "CaptureTables", "CaptureTools",
          "CommandKit",
        ]),
      commands(
        "EmulateCommands",
        [
          "BLECore", "JSONText", "BLEWire", "BLEStack", "BLESecurity", "BLELinux", "BLESensors", "ColmiRing",
          "PacketStatistics", "BLEHost", "BLEPeripheral", "BLEReplay", "BLEEmulation", "EmulatedSensors",
          "SensorSessions", "Recording", "CaptureTables", "Relay", "RingTap", "CommandKit",
        ]),
      commands(
        "RingCommands",
        [
          "BLECore", "JSONText", "BLEStack", "BLELinux", "ColmiRing", "BLEHost", "SensorSessions",
          "Recording",
          "CaptureTables", "CaptureTools", "CommandKit",
        ]),
      commands(
        "Commands",
        [
          "BLECore", "JSONText", "Physiology", "BLEWire", "BLEStack", "BLESecurity", "BLELinux", "BLESensors",
          "ColmiRing", "BLEAirLog", "BLEDissector", "BLEHost", "BLEReplay", "SensorSessions", "Recording",
          "CaptureTables",
          "CaptureTools", "Fleet", "LiveView", "SampleStream", "LabStreaming", "InfluxWriter",
          "HomeAssistant",
          "Doctor", "Daemon", "CommandKit", "BenchCommands", "LogCommands", "EmulateCommands", "RingCommands",
        ], [.product(name: "Histogram", package: "hdrhistogram-swift")]),
      .executableTarget(name: "Main", dependencies: ["Commands"], swiftSettings: swiftSettings),
    ]),
]

let package = Package(
  name: "ringtap",
  products: [
    .executable(name: "ringtap", targets: ["Main"]),
    .library(name: "RingTap", targets: ["RingTap"]),
    .library(name: "Recording", targets: ["Recording"]),
    .library(name: "SensorSessions", targets: ["SensorSessions"]),
    .library(name: "BLEHost", targets: ["BLEHost"]),
    .library(name: "BLEPeripheral", targets: ["BLEPeripheral"]),
    .library(name: "BLEReplay", targets: ["BLEReplay"]),
    .library(name: "BLEEmulation", targets: ["BLEEmulation"]),
    .library(name: "EmulatedSensors", targets: ["EmulatedSensors"]),
    .library(name: "BLESecurity", targets: ["BLESecurity"]),
    .library(name: "BLEPacketLog", targets: ["BLEPacketLog"]),
    .library(name: "BLEDissector", targets: ["BLEDissector"]),
    .library(name: "BLESensors", targets: ["BLESensors"]),
    .library(name: "ColmiRing", targets: ["ColmiRing"]),
    .library(name: "Physiology", targets: ["Physiology"]),
  ],
  dependencies: [
    .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
    .package(url: "https://github.com/HdrHistogram/hdrhistogram-swift", exact: "0.2.0"),
  ],
  targets: targets.joined() + [
    .target(name: "TestKit", path: "Tests/TestKit", swiftSettings: languageSettings),
    .target(
      name: "TestPeer", dependencies: ["BLEStack", "BLELinux"], path: "Tests/TestPeer",
      swiftSettings: languageSettings),
    .target(
      name: "PeripheralKit",
      dependencies: [
        "BLECore", "BLEWire", "BLEStack", "BLELinux", "BLEHost", "BLEPeripheral", "BLEEmulation",
      ],
      path: "Tests/PeripheralKit", swiftSettings: languageSettings),
    .target(
      name: "LogKit",
      dependencies: ["BLECore", "BLEWire", "BLEPacketLog", "TestKit"],
      path: "Tests/LogKit",
      swiftSettings: languageSettings),
    tests("BLECoreTests", ["BLECore"]),
    tests("BLEWireTests", ["BLECore", "BLEWire", "TestKit"]),
    tests("BLEStackTests", ["BLECore", "BLEWire", "BLEStack", "TestKit"], exclude: ["Fixtures"]),
    tests("BLESecurityTests", ["BLEWire", "BLEStack", "BLESecurity", "TestKit"]),
    tests(
      "BLEEmulationTests",
      [
        "BLECore", "Physiology", "BLEWire", "BLEStack", "BLESensors", "ColmiRing", "BLEEmulation",
        "EmulatedSensors", "TestKit",
      ]),
    tests(
      "BLELinuxTests",
      ["CTestSystem", "BLECore", "BLELinux", "TestKit", "TestPeer"]),
    tests(
      "ReceivePathTests",
      [
        "CMallocCounter", "BLECore", "Physiology", "BLEWire", "BLEStack", "BLELinux", "BLESensors",
        "ColmiRing", "BLEDissector", "BLEHost", "BLEEmulation", "EmulatedSensors", "SensorSessions",
        "Recording", "TestKit", "TestPeer",
      ]),
    tests(
      "BLEHostTests",
      [
        "CTestSystem", "BLECore", "BLEWire", "BLEStack", "BLESecurity", "BLELinux", "BLEHost",
        "BLEPeripheral", "TestKit", "TestPeer",
      ]),
    tests("BLEReplayTests", ["BLECore", "BLEWire", "BLEHost", "BLEReplay"]),
    tests(
      "RingTapTests",
      [
        "CTestSystem", "BLECore", "JSONText", "Physiology", "BLEWire", "BLEStack", "BLELinux",
        "BLEErrorGuide", "BLESensors", "ColmiRing", "BLEPacketLog", "BLEDissector", "BLEHost",
        "SensorSessions", "Recording", "CaptureTables", "CaptureTools", "Fleet", "LiveView", "SampleStream",
        "LabStreaming", "InfluxWriter", "HomeAssistant", "Doctor", "Daemon", "TestKit", "TestPeer",
      ], exclude: ["Fixtures", "Readers"]),
    tests(
      "VirtualLinkTests",
      [
        "CTestSystem", "BLECore", "JSONText", "BLEWire", "BLEStack", "BLESecurity", "BLELinux", "BLESensors",
        "ColmiRing", "BLEPacketLog", "BLEDissector", "BLEHost", "BLEPeripheral", "BLEReplay", "BLEEmulation",
        "EmulatedSensors", "SensorSessions", "Recording", "CaptureTables", "CaptureTools", "Daemon", "Relay",
        "Physiology", "PacketStatistics", "PeripheralKit", "TestKit", "TestPeer", "Simulation",
      ]),
    tests(
      "ConformanceTests",
      [
        "BLECore", "BLEWire", "BLEStack", "BLESecurity", "BLELinux", "BLESensors", "BLEHost", "BLEPeripheral",
        "BLEEmulation", "PeripheralKit", "TestKit", "TestPeer",
      ],
      exclude: ["Dialogues", "Attacks/Dialogues", "Attacks/device.txt"]),
    tests(
      "BLESensorsTests",
      ["BLECore", "JSONText", "BLEWire", "BLESensors", "BLEDissector", "TestKit"],
      exclude: ["Fixtures"]),
    tests("JSONTextTests", ["JSONText"]),
    tests(
      "PhysiologyTests",
      [
        "BLECore", "Physiology", "CompressedFiles", "BLESensors", "ColmiRing", "SensorSessions", "Relay",
        "TestKit",
      ],
      exclude: ["Fixtures"]),
    tests(
      "ColmiRingTests", ["BLECore", "JSONText", "Physiology", "BLEWire", "ColmiRing", "TestKit"],
      exclude: ["Fixtures"]),
    tests(
      "BLEPacketLogTests",
      [
        "BLECore", "JSONText", "BLEWire", "CompressedFiles", "BLESensors", "BLEPacketLog", "BLEDissector",
        "PacketStatistics", "TestKit", "LogKit",
      ]),
    tests(
      "BLEAirLogTests", ["BLECore", "BLEWire", "BLEPacketLog", "BLEAirLog", "TestKit"],
      exclude: ["Fixtures"]),
    tests(
      "ProgramTests",
      ["BLECore", "BLEWire", "BLEStack", "BLEPacketLog", "BLEHost", "SensorSessions", "TestKit", "LogKit"],
      exclude: ["LSL", "Python"]),
    tests(
      "KernelTests", ["TestKit"], exclude: ["Peers"],
      settings: [.defaultIsolation(MainActor.self)]),
    .target(
      name: "FuzzTargets",
      dependencies: [
        "BLECore", "JSONText", "BLEWire", "BLEStack", "BLELinux", "CompressedFiles", "BLESensors",
        "ColmiRing", "BLEAirLog", "BLEPacketLog", "BLEDissector", "PacketStatistics", "BLEHost",
        "BLEPeripheral", "BLEReplay", "BLEEmulation", "EmulatedSensors", "SensorSessions", "Recording",
        "CaptureTables", "CaptureTools", "Fleet", "Daemon", "Commands",
      ],
      path: "Tests/FuzzTargets", swiftSettings: languageSettings),
    tests("FuzzTests", ["FuzzTargets", "TestKit"]),
    .target(name: "CTestSystem", path: "Tests/CTestSystem"),
    .target(
      name: "Simulation",
      dependencies: [
        "CTestSystem", "BLECore", "BLEWire", "BLEStack", "BLELinux", "ColmiRing", "BLEHost", "BLEEmulation",
        "EmulatedSensors", "SensorSessions", "Recording", "JSONText", "CaptureTables", "CaptureTools",
      ], path: "Tests/Simulation", swiftSettings: languageSettings),
    tests("SimulationTests", ["BLECore", "Simulation", "TestKit"]),
  ]
)

if Context.environment["RINGTAP_SIMULATE"] != nil {
  package.targets.append(
    .executableTarget(
      name: "simulate", dependencies: ["Simulation"], path: "Tests/SimulationProgram",
      swiftSettings: languageSettings))
}

// Has a main function only with libFuzzer: `Tools/fuzz/run` builds it.
if Context.environment["RINGTAP_FUZZ"] != nil {
  package.targets.append(
    .executableTarget(
      name: "fuzz", dependencies: ["FuzzTargets"], path: "Tools/fuzz",
      exclude: ["corpus", "peers", "run", "seeds"],
      swiftSettings: languageSettings))
}

// `Tools/test NAME` builds no more than these tests need.
if let names = Context.environment["RINGTAP_TEST_TARGETS"] {
  var needed = Set(names.split(separator: ",").map(String.init))
  var before = 0
  while needed.count > before {
    before = needed.count
    for target in package.targets where needed.contains(target.name) {
      for case .byNameItem(let name, _) in target.dependencies { needed.insert(name) }
    }
  }
  package.targets.removeAll { !needed.contains($0.name) }
  package.products = []
}

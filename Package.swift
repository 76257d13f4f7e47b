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
      // `#embed`: Swift's own way makes a literal of each byte.
      .target(name: "CNumberNames", exclude: ["appearances.txt", "companies.txt"]),
      .target(
        name: "CReportPage",
        exclude: [
          "charts.js", "data.js", "dygraph.LICENSE", "dygraph.min.css", "dygraph.min.js", "live.css",
          "live.js", "page.css", "page.js",
        ]),
    ]),
  wing(
    "Stack",
    [
      library("BLEWire", []),
      library("BLEStack", ["BLEWire"]),
      library("BLESecurity", ["CLibcrypto", "BLEWire", "BLEStack"]),
      library("BLELinux", ["CBluetoothLinux", "BLEWire"]),
      library("BLEHost", ["BLEWire", "BLEStack", "BLELinux"]),
      library("BLEPeripheral", ["BLEWire", "BLEStack", "BLELinux", "BLEHost"]),
    ]),
  wing(
    "Sensors",
    [
      library("JSONText", ["BLEWire"]),
      library("Physiology", ["BLEWire"]),
      library("BLESensors", ["BLEWire", "JSONText"]),
      library("ColmiRing", ["BLEWire", "JSONText", "Physiology"]),
      library(
        "SensorSessions",
        ["BLEWire", "BLEStack", "BLELinux", "BLEHost", "JSONText", "BLESensors", "ColmiRing"]),
    ]),
  wing(
    "Logs",
    [
      library("BLEPacketLog", ["CCompression", "BLEWire", "BLEStack", "BLELinux"]),
      library(
        "BLEDissector",
        ["CNumberNames", "BLEWire", "BLEStack", "JSONText", "BLESensors", "ColmiRing", "BLEPacketLog"]),
      library(
        "BLEReplay",
        ["BLEWire", "BLEStack", "BLELinux", "BLEHost", "BLEPacketLog", "BLEDissector"]),
    ]),
  wing(
    "Captures",
    [
      library(
        "Recording",
        [
          "CBluetoothLinux", "BLEWire", "BLEStack", "BLELinux", "BLEHost", "JSONText", "Physiology",
          "BLESensors", "ColmiRing", "SensorSessions", "BLEPacketLog",
        ]),
      library(
        "CaptureTools",
        [
          "CEDF", "CReportPage", "BLEWire", "BLEStack", "BLELinux", "BLEHost", "JSONText", "Physiology",
          "BLESensors", "ColmiRing", "SensorSessions", "BLEPacketLog", "BLEDissector", "Recording",
        ]),
    ]),
  wing(
    "Outlets",
    [
      library(
        "LiveView",
        [
          "BLEWire", "BLEStack", "BLELinux", "BLEHost", "JSONText", "Physiology", "BLESensors", "ColmiRing",
          "SensorSessions", "Recording",
        ]),
      library(
        "Fleet",
        ["CMosquitto", "BLEWire", "BLELinux", "BLEHost", "JSONText", "Recording"]),
      library(
        "Outlets",
        [
          "CCurl", "CLabStreaming", "BLEWire", "BLELinux", "JSONText", "Physiology", "BLESensors",
          "ColmiRing", "SensorSessions", "Recording", "CaptureTools", "LiveView", "Fleet",
        ]),
      library(
        "Relay",
        [
          "BLEWire", "BLEStack", "BLELinux", "BLEHost", "BLEPeripheral", "Physiology", "BLESensors",
          "ColmiRing", "SensorSessions", "BLEDissector", "Recording",
        ]),
    ]),
  wing(
    "Emulation",
    [
      library(
        "BLEEmulation",
        ["BLEWire", "BLEStack", "BLELinux", "JSONText", "Physiology", "BLESensors", "ColmiRing"])
    ]),
  wing(
    "Program",
    [
      library(
        "RingTap",
        [
          "BLEWire", "BLEStack", "BLELinux", "BLEHost", "BLEPeripheral", "JSONText", "Physiology",
          "BLESensors", "ColmiRing", "SensorSessions", "BLEPacketLog", "BLEDissector", "BLEReplay",
          "Recording", "BLEEmulation",
        ]),
      library("Doctor", ["BLEWire", "BLELinux", "BLEHost"]),
      commands(
        "CommandKit",
        [
          "BLEWire", "BLEStack", "BLESecurity", "BLELinux", "BLEHost", "JSONText", "BLESensors",
          "SensorSessions", "BLEPacketLog", "BLEReplay", "Recording", "LiveView", "Fleet",
          "Outlets", "BLEEmulation", "RingTap",
        ]),
      library(
        "Daemon",
        [
          "CBluetoothLinux", "BLEWire", "BLELinux", "BLEHost", "JSONText", "BLESensors", "SensorSessions",
          "Recording", "CaptureTools", "LiveView", "Fleet", "Outlets", "RingTap", "CommandKit",
        ]),
      commands(
        "Commands",
        [
          "CMallocCounter", "BLEWire", "BLEStack", "BLESecurity", "BLELinux", "BLEHost", "BLEPeripheral",
          "JSONText", "Physiology", "BLESensors", "ColmiRing", "SensorSessions", "BLEPacketLog",
          "BLEDissector", "BLEReplay", "Recording", "CaptureTools", "LiveView", "Fleet", "Outlets", "Relay",
          "BLEEmulation", "RingTap", "Doctor", "CommandKit", "Daemon",
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
    // What serves only the authors. Nothing installs it.
    .target(
      name: "Dialogues", dependencies: ["BLEWire", "BLEStack", "BLELinux", "BLEEmulation"],
      path: "Tools/Harness/Dialogues", swiftSettings: swiftSettings),
    .target(
      name: "HarnessKit",
      dependencies: [
        "BLEWire", "BLEStack", "BLELinux", "BLEHost", "ColmiRing", "SensorSessions", "BLEReplay", "Recording",
      ], path: "Tools/Harness/Kit", swiftSettings: swiftSettings),
    .executableTarget(
      name: "harness",
      dependencies: [
        "CMallocCounter", "BLEWire", "BLEStack", "BLELinux", "BLEHost", "JSONText", "SensorSessions",
        "BLEReplay", "Recording", "BLEEmulation", "RingTap", "CommandKit", "Commands", "HarnessKit",
        "Dialogues",
        .product(name: "ArgumentParser", package: "swift-argument-parser"),
      ], path: "Tools/Harness/Program", swiftSettings: swiftSettings),
    .target(name: "TestKit", path: "Tests/TestKit", swiftSettings: languageSettings),
    .target(
      name: "TestPeer", dependencies: ["BLEStack", "BLELinux"], path: "Tests/TestPeer",
      swiftSettings: languageSettings),
    .target(
      name: "PeripheralKit",
      dependencies: ["BLEWire", "BLEStack", "BLELinux", "BLEHost", "BLEPeripheral", "BLEEmulation"],
      path: "Tests/PeripheralKit", swiftSettings: languageSettings),
    .target(
      name: "LogKit",
      dependencies: ["BLEWire", "BLEPacketLog", "TestKit"],
      path: "Tests/LogKit",
      swiftSettings: languageSettings),
    .target(
      name: "CaptureKit",
      dependencies: ["BLEWire", "BLELinux", "BLEHost", "ColmiRing", "SensorSessions", "Recording"],
      path: "Tests/CaptureKit", swiftSettings: languageSettings),
    tests("BLEWireTests", ["BLEWire", "TestKit"]),
    tests("BLEStackTests", ["BLEWire", "BLEStack", "TestKit"], exclude: ["Fixtures"]),
    tests("BLESecurityTests", ["BLEWire", "BLEStack", "BLESecurity", "TestKit"]),
    tests(
      "BLEEmulationTests",
      [
        "BLEWire", "BLEStack", "Physiology", "BLESensors", "ColmiRing", "BLEEmulation", "Dialogues",
        "TestKit",
      ]),
    tests(
      "BLELinuxTests",
      ["CTestSystem", "BLEWire", "BLELinux", "TestKit", "TestPeer"]),
    tests(
      "ReceivePathTests",
      [
        "CMallocCounter", "BLEWire", "BLEStack", "BLELinux", "BLEHost", "Physiology", "BLESensors",
        "ColmiRing", "SensorSessions", "Recording", "BLEEmulation", "TestKit", "TestPeer",
      ]),
    tests(
      "BLEHostTests",
      [
        "CTestSystem", "BLEWire", "BLEStack", "BLESecurity", "BLELinux", "BLEHost", "BLEPeripheral",
        "TestKit", "TestPeer",
      ]),
    tests("BLEReplayTests", ["BLEWire", "BLEHost", "BLEReplay"]),
    tests(
      "SensorSessionsTests",
      ["BLEWire", "BLEStack", "BLELinux", "BLEHost", "BLESensors", "ColmiRing", "SensorSessions", "TestKit"]),
    tests(
      "RecordingTests",
      [
        "CTestSystem", "BLEWire", "BLEStack", "BLELinux", "BLEHost", "JSONText", "BLESensors", "ColmiRing",
        "SensorSessions", "BLEPacketLog", "BLEDissector", "Recording", "CaptureTools", "HarnessKit",
        "TestKit",
        "TestPeer", "CaptureKit",
      ]),
    tests(
      "CaptureToolsTests",
      [
        "BLEWire", "BLELinux", "BLEHost", "JSONText", "Physiology", "BLESensors", "ColmiRing",
        "SensorSessions", "BLEPacketLog", "BLEDissector", "Recording", "CaptureTools", "TestKit",
        "CaptureKit",
      ], exclude: ["Fixtures"]),
    tests(
      "LiveViewTests",
      [
        "BLEWire", "BLELinux", "BLEHost", "Physiology", "BLESensors", "ColmiRing", "SensorSessions",
        "Recording", "LiveView", "TestKit",
      ]),
    tests(
      "FleetTests",
      [
        "CTestSystem", "BLEWire", "BLELinux", "JSONText", "Recording", "CaptureTools",
        "Fleet",
        "TestKit",
      ]),
    tests(
      "OutletsTests",
      [
        "BLEWire", "BLEStack", "BLELinux", "BLESensors", "ColmiRing", "SensorSessions", "BLEDissector",
        "Recording", "Outlets", "TestKit", "TestPeer", "CaptureKit",
      ]),
    tests("DoctorTests", ["BLEWire", "BLELinux", "BLEHost", "Doctor", "TestKit"]),
    tests(
      "DaemonTests",
      [
        "BLEWire", "BLELinux", "BLEHost", "BLESensors", "SensorSessions", "Recording",
        "CaptureTools", "LiveView", "Fleet", "Outlets", "CommandKit", "Daemon", "TestKit",
      ]),
    tests(
      "VirtualLinkTests",
      [
        "CTestSystem", "BLEWire", "BLEStack", "BLESecurity", "BLELinux", "BLEHost", "BLEPeripheral",
        "JSONText", "Physiology", "BLESensors", "ColmiRing", "SensorSessions", "BLEPacketLog", "BLEDissector",
        "BLEReplay", "Recording", "CaptureTools", "Relay", "BLEEmulation", "Daemon", "HarnessKit", "TestKit",
        "TestPeer",
        "PeripheralKit", "Simulation",
      ]),
    tests(
      "ConformanceTests",
      [
        "BLEWire", "BLEStack", "BLESecurity", "BLELinux", "BLEHost", "BLEPeripheral", "BLESensors",
        "SensorSessions", "BLEEmulation", "Dialogues", "TestKit", "TestPeer", "PeripheralKit",
      ],
      exclude: ["Dialogues", "Attacks/Dialogues", "Attacks/device.txt"]),
    tests(
      "BLESensorsTests",
      ["BLEWire", "JSONText", "BLESensors", "BLEDissector", "TestKit"],
      exclude: ["Fixtures"]),
    tests("JSONTextTests", ["JSONText"]),
    tests(
      "PhysiologyTests",
      [
        "BLEWire", "Physiology", "BLESensors", "ColmiRing", "SensorSessions", "BLEPacketLog", "Relay",
        "TestKit",
      ],
      exclude: ["Fixtures"]),
    tests(
      "ColmiRingTests", ["BLEWire", "JSONText", "Physiology", "ColmiRing", "TestKit"],
      exclude: ["Fixtures"]),
    tests(
      "BLEPacketLogTests",
      ["BLEWire", "JSONText", "BLESensors", "BLEPacketLog", "BLEDissector", "TestKit", "LogKit"],
      exclude: ["Air/Fixtures"]),
    tests(
      "ProgramTests",
      ["BLEWire", "BLEStack", "BLELinux", "BLEHost", "SensorSessions", "BLEPacketLog", "TestKit", "LogKit"],
      exclude: ["LSL", "Python"]),
    // Errors of all modules.
    tests(
      "MessageTests",
      [
        "BLEWire", "BLEStack", "BLESecurity", "BLELinux", "BLEHost", "BLEPeripheral", "JSONText",
        "Physiology",
        "ColmiRing", "SensorSessions", "BLEPacketLog", "Recording", "CaptureTools", "Fleet", "Outlets",
        "BLEEmulation", "Daemon", "CommandKit", "Commands", "TestKit",
      ]),
    tests(
      "KernelTests", ["TestKit"], exclude: ["Peers"],
      settings: [.defaultIsolation(MainActor.self)]),
    .target(
      name: "FuzzTargets",
      dependencies: [
        "BLEWire", "BLEStack", "BLELinux", "BLEHost", "BLEPeripheral", "JSONText", "BLESensors", "ColmiRing",
        "SensorSessions", "BLEPacketLog", "BLEDissector", "BLEReplay", "Recording", "CaptureTools", "Fleet",
        "Outlets", "BLEEmulation", "Daemon", "Commands", "HarnessKit", "Dialogues",
      ],
      path: "Tests/FuzzTargets", swiftSettings: languageSettings),
    tests("FuzzTests", ["TestKit", "FuzzTargets"]),
    .target(name: "CTestSystem", path: "Tests/CTestSystem"),
    .target(
      name: "Simulation",
      dependencies: [
        "CTestSystem", "BLEWire", "BLEStack", "BLELinux", "BLEHost", "JSONText", "ColmiRing",
        "SensorSessions", "Recording", "CaptureTools", "BLEEmulation",
      ], path: "Tests/Simulation", swiftSettings: languageSettings),
    tests("SimulationTests", ["BLEWire", "TestKit", "Simulation"]),
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
  package.products = needed.contains("Main") ? [.executable(name: "ringtap", targets: ["Main"])] : []
}

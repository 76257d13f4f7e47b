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

/// A library target of ours. `Tools/tidy` holds the table of what each may import.
func library(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
  .target(name: name, dependencies: dependencies, swiftSettings: swiftSettings)
}

func tests(
  _ name: String, _ dependencies: [Target.Dependency],
  exclude: [String] = [], settings: [SwiftSetting] = []
) -> Target {
  .testTarget(
    name: name, dependencies: dependencies, exclude: exclude,
    swiftSettings: languageSettings + settings)
}

let package = Package(
  name: "ringtap",
  products: [
    .executable(name: "ringtap", targets: ["ringtap"]),
    .library(name: "RingTap", targets: ["RingTap"]),
    .library(name: "BLEHost", targets: ["BLEHost"]),
    .library(name: "BLEReplay", targets: ["BLEReplay"]),
    .library(name: "BLEEmulation", targets: ["BLEEmulation"]),
    .library(name: "BLESecurity", targets: ["BLESecurity"]),
    .library(name: "BLEPacketLog", targets: ["BLEPacketLog"]),
    .library(name: "BLESensors", targets: ["BLESensors"]),
    .library(name: "ColmiRing", targets: ["ColmiRing"]),
    .library(name: "Physiology", targets: ["Physiology"]),
  ],
  dependencies: [
    .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
    .package(url: "https://github.com/HdrHistogram/hdrhistogram-swift", exact: "0.2.0"),
  ],
  targets: [
    .target(name: "CBluetoothLinux"),
    .target(
      name: "CCompression", linkerSettings: [.linkedLibrary("z"), .linkedLibrary("zstd")]),
    // The archive, not the shared library: few machines have that.
    .target(name: "CEDF", linkerSettings: [.linkedLibrary(":libedf.a")]),
    // Opens the library at run time.
    .target(name: "CLibcrypto"),
    // Opens the library at run time; only its headers are needed here.
    .target(name: "CMosquitto"),
    // `#embed`: Swift's own way makes a literal of each octet.
    .target(
      name: "CReportPage",
      exclude: [
        "charts.js", "data.js", "dygraph.LICENSE", "dygraph.min.css", "dygraph.min.js", "page.css", "page.js",
      ]),
    library("BLECore", []),
    library("BLEWire", ["BLECore"]),
    library("BLEStack", ["BLECore", "BLEWire"]),
    library("BLESecurity", ["BLECore", "BLEWire", "BLEStack", "CLibcrypto"]),
    library(
      "BLESystem", ["CBluetoothLinux", "CCompression", "CEDF", "CMosquitto", "CReportPage", "BLECore"]),
    library("JSONText", ["BLECore"]),
    library("Physiology", ["BLECore"]),
    library("BLESensors", ["BLECore", "BLEWire"]),
    library("ColmiRing", ["JSONText", "BLECore", "BLEWire", "Physiology"]),
    library("BLEPacketLog", ["JSONText", "BLECore", "BLEWire", "BLEStack", "BLESensors", "ColmiRing"]),
    library("BLEHost", ["BLECore", "BLEWire", "BLEStack", "BLESystem"]),
    library("BLEReplay", ["BLECore", "BLEWire", "BLEStack", "BLESystem", "BLEPacketLog", "BLEHost"]),
    library("BLEEmulation", ["BLECore", "BLEWire", "BLEStack", "BLESystem", "BLESensors", "ColmiRing"]),
    library(
      "RingTap",
      [
        "JSONText", "Physiology", "ColmiRing", "BLECore", "BLEWire", "BLEStack", "BLESystem", "BLESensors",
        "BLEPacketLog", "BLEHost", "BLEReplay",
      ]),
    .executableTarget(
      name: "ringtap",
      dependencies: [
        "JSONText", "Physiology", "ColmiRing",
        "BLECore", "BLEWire", "BLESystem", "BLESensors", "BLEPacketLog", "BLEHost", "BLEReplay", "RingTap",
        "BLESecurity", "BLEEmulation", "CMallocCounter",
        .product(name: "ArgumentParser", package: "swift-argument-parser"),
        .product(name: "Histogram", package: "hdrhistogram-swift"),
      ],
      swiftSettings: swiftSettings),
    // What a guide shows.
    .executableTarget(
      name: "Pulse",
      dependencies: ["BLEHost", "ColmiRing", "Physiology", "BLESystem", "RingTap"],
      path: "Tools/Examples",
      swiftSettings: languageSettings),
    .target(name: "CMallocCounter"),
    .target(name: "TestKit", path: "Tests/TestKit", swiftSettings: languageSettings),
    .target(
      name: "TestPeer", dependencies: ["BLESystem"], path: "Tests/TestPeer",
      swiftSettings: languageSettings),
    .target(
      name: "LogKit", dependencies: ["BLECore", "BLEWire", "BLEPacketLog", "TestKit"], path: "Tests/LogKit",
      swiftSettings: languageSettings),
    tests("BLECoreTests", ["BLECore"]),
    tests("BLEWireTests", ["BLECore", "BLEWire", "TestKit"]),
    tests("BLEStackTests", ["BLECore", "BLEWire", "BLEStack", "TestKit"], exclude: ["Fixtures"]),
    tests("BLESecurityTests", ["BLEWire", "BLEStack", "BLESecurity", "TestKit"]),
    tests(
      "BLEEmulationTests",
      [
        "BLECore", "BLEWire", "BLEStack", "BLESensors", "BLEEmulation",
        "TestKit",
      ]),
    tests("BLESystemTests", ["BLECore", "BLESystem", "TestKit", "TestPeer"]),
    tests(
      "ReceivePathTests",
      [
        "Physiology", "ColmiRing",
        "CMallocCounter", "BLECore", "BLEWire", "BLEStack", "BLESystem", "BLESensors", "BLEHost", "RingTap",
        "BLEEmulation", "TestKit", "TestPeer",
      ]),
    tests(
      "BLEHostTests",
      ["BLECore", "BLEWire", "BLEStack", "BLESecurity", "BLESystem", "BLEHost", "TestKit", "TestPeer"]),
    tests("BLEReplayTests", ["BLECore", "BLEWire", "BLEHost", "BLEReplay"]),
    tests(
      "RingTapTests",
      [
        "JSONText", "Physiology", "ColmiRing",
        "BLECore", "BLEWire", "BLEStack", "BLESystem", "BLESensors", "BLEPacketLog", "BLEHost", "RingTap",
        "TestKit", "TestPeer", "CTestSystem",
      ], exclude: ["Readers"]),
    tests(
      "VirtualLinkTests",
      [
        "JSONText", "ColmiRing",
        "BLECore", "BLEWire", "BLEStack", "BLESystem", "BLESensors", "BLEPacketLog", "BLEHost", "BLEReplay",
        "BLEEmulation", "RingTap",
        "TestKit", "TestPeer", "CTestSystem",
      ]),
    tests(
      "ConformanceTests",
      [
        "BLECore", "BLEWire", "BLEStack", "BLESystem", "BLESensors", "BLEHost", "BLEEmulation", "TestKit",
        "TestPeer",
      ], exclude: ["Dialogues"]),
    tests(
      "BLESensorsTests", ["JSONText", "BLECore", "BLEWire", "BLESensors", "BLEPacketLog", "TestKit"],
      exclude: ["Fixtures"]),
    tests("JSONTextTests", ["JSONText"]),
    tests("PhysiologyTests", ["BLECore", "Physiology", "TestKit"], exclude: ["Fixtures"]),
    tests(
      "ColmiRingTests", ["JSONText", "BLECore", "BLEWire", "Physiology", "ColmiRing", "TestKit"],
      exclude: ["Fixtures"]),
    tests(
      "BLEPacketLogTests",
      [
        "JSONText", "BLECore", "BLEWire", "BLESystem", "BLESensors",
        "BLEPacketLog", "TestKit", "LogKit",
      ]),
    tests(
      "ProgramTests",
      [
        "BLECore", "BLEWire", "BLEStack", "BLEPacketLog", "BLEHost", "RingTap", "TestKit",
        "LogKit",
      ]),
    tests(
      "KernelTests", ["TestKit"], exclude: ["Peers"],
      settings: [.defaultIsolation(MainActor.self)]),
    .target(
      name: "FuzzTargets",
      dependencies: [
        "JSONText", "ColmiRing",
        "BLECore", "BLEWire", "BLEStack", "BLESystem", "BLESensors", "BLEPacketLog", "BLEHost", "BLEReplay",
        "BLEEmulation", "RingTap",
      ],
      path: "Tests/FuzzTargets", swiftSettings: languageSettings),
    tests("FuzzTests", ["FuzzTargets"]),
    .target(name: "CTestSystem", path: "Tests/CTestSystem"),
    .target(
      name: "Simulation",
      dependencies: [
        "ColmiRing",
        "CTestSystem", "BLECore", "BLEWire", "BLEStack", "BLESystem", "BLEHost", "BLEEmulation",
        "RingTap",
      ], path: "Tests/Simulation", swiftSettings: languageSettings),
    tests("SimulationTests", ["BLECore", "Simulation"]),
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
      name: "fuzz", dependencies: ["FuzzTargets"], path: "Tools/fuzz", exclude: ["corpus", "run", "seeds"],
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
